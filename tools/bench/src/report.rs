//! Report of a measurement: a readable table, or one flat JSON object.

use std::io::Write;

use serde_json::{Map, Number, Value};

use threadline::progress::Progress;

/// Bound that a figure must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// No bound: the figure is for information.
    None,
    /// Least ratio to the baseline.
    RatioAtLeast(f64),
    /// Greatest ratio to the baseline.
    RatioAtMost(f64),
    /// Least value of the figure itself.
    AtLeast(f64),
    /// Exclusive upper bound of the figure itself.
    Below(f64),
    /// Greatest value of the figure itself.
    AtMost(f64),
}

impl Budget {
    fn text(self) -> String {
        match self {
            Self::None => String::new(),
            Self::RatioAtLeast(limit) => format!("ratio ≥ {limit}"),
            Self::RatioAtMost(limit) => format!("ratio ≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {}", figure(limit)),
            Self::Below(limit) => format!("< {}", figure(limit)),
            Self::AtMost(limit) => format!("≤ {}", figure(limit)),
        }
    }

    fn kept(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::None => None,
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::AtLeast(limit) => Some(ours >= limit),
            Self::Below(limit) => Some(ours < limit),
            Self::AtMost(limit) => Some(ours <= limit),
        }
    }
}

/// Line of the table.
#[derive(Debug, Clone)]
struct Row {
    what: &'static str,
    unit: &'static str,
    ours: f64,
    bare: Option<f64>,
    ratio: Option<f64>,
    budget: Budget,
}

/// Rows and numbers of all measurements.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
    keys: Map<String, Value>,
    progress: Progress,
}

impl Report {
    /// Starts an empty report. Progress is shown on standard error if that is a terminal.
    pub fn new() -> Self {
        Self { rows: Vec::new(), keys: Map::new(), progress: Progress::default() }
    }

    /// Shows the current step.
    pub fn progress(&self, what: &str) {
        self.progress.show(what);
    }

    /// Prints a remark on standard error.
    pub fn note(&self, what: &str) {
        eprintln!("{}note: {what}", self.progress.start());
    }

    /// Adds a line to the table.
    pub fn row(
        &mut self,
        what: &'static str,
        unit: &'static str,
        ours: f64,
        bare: Option<f64>,
        ratio: Option<f64>,
        budget: Budget,
    ) {
        self.rows.push(Row { what, unit, ours, bare, ratio, budget });
    }

    /// Adds a number to the JSON object, rounded to four digits.
    pub fn key(&mut self, name: &str, value: f64) {
        let digits = if value == 0.0 || !value.is_finite() { 0 } else { 3 - value.abs().log10().floor() as i32 };
        let scale = 10f64.powi(digits.max(0));
        if let Some(number) = Number::from_f64((value * scale).round() / scale) {
            self.keys.insert(name.to_owned(), Value::Number(number));
        }
    }

    /// Number that was added to the JSON object.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.keys.get(name)?.as_f64()
    }

    /// Prints the report on standard output.
    pub fn print(self, json: bool) -> std::io::Result<()> {
        self.progress.clear();
        let mut out = std::io::stdout().lock();
        if json {
            return writeln!(out, "{}", Value::Object(self.keys));
        }
        let line = |what: &str, ours: &str, bare: &str, ratio: &str, budget: &str| {
            format!("{what:<52} {ours:>16} {bare:>16} {ratio:>7}  {budget}")
        };
        writeln!(out, "{}", line("", "ours", "bare", "ratio", "budget"))?;
        for row in self.rows {
            let (ours, bare) = (figure(row.ours), row.bare.map(figure).unwrap_or_default());
            let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            let verdict = match row.budget.kept(row.ours, row.ratio) {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "",
            };
            let budget = format!("{:<12} {verdict}", row.budget.text());
            let unit = |figure: String| if figure.is_empty() { figure } else { format!("{figure} {}", row.unit) };
            writeln!(out, "{}", line(row.what, &unit(ours), &unit(bare), &ratio, budget.trim_end()).trim_end())?;
        }
        Ok(())
    }
}

/// Formats a number for people.
fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{:.2} M", value / 1e6),
        large if large >= 1e4 => format!("{:.0} k", value / 1e3),
        large if large >= 1e3 => format!("{:.1} k", value / 1e3),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
