//! Figures in columns, printed as they come.

/// A table below its heading.
#[derive(Clone, Debug)]
pub struct Table(Vec<usize>);

impl Table {
    /// Prints the heading: the names of the columns and their least widths. The first column is flush left, the others right.
    pub fn new(columns: &[(&str, usize)]) -> Self {
        let table = Self(columns.iter().map(|(_, width)| *width).collect());
        table.row(columns.iter().map(|(name, _)| (*name).to_owned()));
        table
    }

    /// Prints a row.
    pub fn row(&self, cells: impl IntoIterator<Item = String>) {
        let mut line = String::new();
        for (at, (cell, &width)) in cells.into_iter().zip(&self.0).enumerate() {
            line += &if at == 0 { format!("{cell:<width$}") } else { format!(" {cell:>width$}") };
        }
        println!("{}", line.trim_end());
    }
}
