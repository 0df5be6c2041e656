//! Runs wasm-bindgen on the compiled module and takes its last imports away.
//!
//! `tinyrustlm-wasm-pack IN.wasm OUT_DIR NAME [--scalar]` writes `NAME.wasm`, with an empty import list, and, unless
//! `--scalar`, the glue `NAME_bindgen.js` and `NAME_bindgen.d.ts`. The exports the glue calls are those of the raw ABI.

use anyhow::{Context, Result, bail};
use std::path::Path;
use walrus::{FunctionId, ImportKind, Module};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (input, out_dir, name, glue) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [input, out_dir, name] => (input, Path::new(out_dir), name, true),
        [input, out_dir, name, "--scalar"] => (input, Path::new(out_dir), name, false),
        _ => bail!("usage: tinyrustlm-wasm-pack IN.wasm OUT_DIR NAME [--scalar]"),
    };
    let mut output = wasm_bindgen_cli_support::Bindgen::new()
        .input_path(input)
        .out_name(name)
        .web(true)?
        .omit_default_module_path(true)
        .typescript(true)
        .remove_producers_section(true)
        .generate_output()
        .with_context(|| format!("wasm-bindgen on {input}"))?;
    close_imports(output.wasm_mut())?;
    for export in UNUSED {
        // An error would say that wasm-bindgen does not add it any more, which is as good.
        let _ = output.wasm_mut().exports.remove(export);
    }
    std::fs::create_dir_all(out_dir)?;
    output.wasm_mut().emit_wasm_file(out_dir.join(format!("{name}.wasm")))?;
    if glue {
        std::fs::write(out_dir.join(format!("{name}_bindgen.js")), output.js())?;
        std::fs::write(out_dir.join(format!("{name}_bindgen.d.ts")), output.ts().unwrap_or_default())?;
    }
    Ok(())
}

/// What wasm-bindgen exports for modules that throw or hand JS values in, which no glue of this module looks at.
const UNUSED: [&str; 3] = ["__abort_handler", "__instance_terminated", "__wbindgen_externrefs"];

/// Gives every import that wasm-bindgen adds by itself a body of its own.
///
/// The throw becomes a trap (the functions return numbers and never throw), the set-up of the table of JS values does
/// nothing (no JS value enters the module). Any other import is a mistake in the module and is refused.
fn close_imports(module: &mut Module) -> Result<()> {
    let imports: Vec<(FunctionId, String)> = module
        .imports
        .iter()
        .map(|import| match import.kind {
            ImportKind::Function(id) => Ok((id, import.name.clone())),
            _ => bail!("import {}.{} is no function", import.module, import.name),
        })
        .collect::<Result<_>>()?;
    for (id, name) in imports {
        let traps = match name.as_str() {
            name if name.contains("wbindgen_throw") => true,
            name if name.contains("init_externref_table") => false,
            other => bail!("the module imports {other}: it must run on a host that offers nothing"),
        };
        module.replace_imported_func(id, |(body, _)| {
            if traps {
                body.unreachable();
            }
        })?;
    }
    Ok(())
}
