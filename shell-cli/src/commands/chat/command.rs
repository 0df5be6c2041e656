//! What a line of a dialogue asks for.

/// The commands, for people.
pub const HELP: &str = "\
/help          this list
/reset         forget the conversation; the system message stays
/system TEXT   set the system message, or remove it with no text; the turns stay
/save FILE     write the conversation as JSON
/load FILE     go on from a saved conversation
/stats         transcript, cache, and how the last reply went
/quit          end, as does the end of the input
//TEXT         say a text that begins with /
Ctrl-C ends a reply that is being written; what there is of it stays in the conversation.
";

/// A line of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'l> {
    /// Nothing.
    Empty,
    /// Something the user says.
    Say(&'l str),
    /// The list of commands.
    Help,
    /// Forget the turns.
    Reset,
    /// The system message; empty: none.
    System(&'l str),
    /// Write the conversation.
    Save(&'l str),
    /// Read a conversation.
    Load(&'l str),
    /// Figures.
    Stats,
    /// The end.
    Quit,
}

/// Reads a line.
///
/// # Errors
/// A sentence for the user.
pub fn parse(line: &str) -> Result<Line<'_>, String> {
    if line.trim().is_empty() {
        return Ok(Line::Empty);
    }
    let Some(command) = line.strip_prefix('/') else { return Ok(Line::Say(line)) };
    if command.starts_with('/') {
        return Ok(Line::Say(command));
    }
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let alone =
        |made: Line<'static>| if rest.is_empty() { Ok(made) } else { Err(format!("/{name} takes nothing behind it")) };
    let path = || if rest.is_empty() { Err(format!("/{name} takes the name of a file")) } else { Ok(rest) };
    match name {
        "help" => alone(Line::Help),
        "reset" => alone(Line::Reset),
        "stats" => alone(Line::Stats),
        "quit" => alone(Line::Quit),
        "system" => Ok(Line::System(rest)),
        "save" => path().map(Line::Save),
        "load" => path().map(Line::Load),
        _ => Err(format!("no such command: /{name}; /help lists them, and //{name} says it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_said_unless_they_are_commands() {
        assert_eq!(parse(" \t"), Ok(Line::Empty));
        assert_eq!(parse(" a /b "), Ok(Line::Say(" a /b ")));
        assert_eq!(parse("//etc/passwd"), Ok(Line::Say("/etc/passwd")));
        assert_eq!(parse("/system  Be brief. "), Ok(Line::System("Be brief.")));
        assert_eq!(parse("/system"), Ok(Line::System("")));
        assert_eq!(parse("/save a b.json"), Ok(Line::Save("a b.json")));
        for (line, word) in [("/load ", "/load"), ("/stats now", "/stats"), ("/frob", "/help"), ("/", "/help")] {
            assert!(parse(line).unwrap_err().contains(word), "{line}");
        }
        for name in ["help", "reset", "stats", "quit", "system", "save", "load"] {
            assert!(HELP.contains(&format!("/{name}")));
        }
    }
}
