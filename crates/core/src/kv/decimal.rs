//! Decimal numbers of JSON, compared without rounding.

use std::cmp::Ordering;

/// A number of JSON: `0.d₁d₂…·10^exponent`, with a first and a last digit that are not 0. Zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    exponent: i64,
    digits: Vec<u8>,
}

impl Decimal {
    /// Reads a JSON text; `None` if it is no number.
    pub(super) fn of(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        if !rest.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let (number, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        digits.truncate(digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1));
        if digits.is_empty() {
            return Some(Self { negative: false, exponent: 0, digits });
        }
        // An exponent that does not fit into an integer is greater, or less, than all that do.
        let beyond = if power.starts_with('-') { i64::MIN } else { i64::MAX };
        let power = power.parse().unwrap_or(beyond);
        let exponent = power.saturating_add(whole.len() as i64 - leading as i64);
        Some(Self { negative, exponent, digits })
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits));
        self.sign().cmp(&other.sign()).then_with(|| if self.negative { size().reverse() } else { size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::of(text).expect("a number")
    }

    #[test]
    fn numbers_are_in_the_order_of_their_values() {
        let sorted = [
            "-1e999",
            "-1e3",
            "-999.5",
            "-10",
            "-1",
            "-0.1",
            "-1e-999",
            "0",
            "1e-999",
            "0.01",
            "0.1",
            "0.11",
            "1",
            "9",
            "10",
            "10.5",
            "99",
            "100",
            "1E+3",
            "9007199254740992",
            "9007199254740993",
            "1e999",
            "1e99999999999999999999",
        ];
        for pair in sorted.windows(2) {
            assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_number_is_equal_in_whatever_form() {
        for same in
            [&["1", "1.0", "10e-1", "0.1E1", "0.01e+2"][..], &["0", "-0", "0.000", "0e5", "-0.0"], &["-1200", "-1.2e3"]]
        {
            assert!(same.iter().all(|text| decimal(text) == decimal(same[0])), "{same:?}");
        }
        assert_eq!(["\"1\"", "null", "[1]", "-", ""].map(Decimal::of), [const { None }; 5]);
    }
}
