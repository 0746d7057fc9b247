//! [`Spread`]: a median, and how far the rounds were apart.

/// The figures of several rounds.
pub struct Spread {
    least: f64,
    pub median: f64,
    most: f64,
}

impl Spread {
    pub fn from_values(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Spread { least: values[0], median: values[values.len() / 2], most: values[values.len() - 1] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.2} ({:.2} to {:.2})", self.median, self.least, self.most))
    }
}
