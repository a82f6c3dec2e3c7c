//! Quantities: `500m`, `1.5Gi`, `2e3`. Parsing, and the canonical form in which they are stored and shown.

use std::fmt;

use serde_json::Value;

use crate::schema::QUANTITY;

/// An amount, exact to a billionth, and the notation that it was written in.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// In billionths.
    nano: i128,
    notation: Notation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `k`, `M`, `m`.
    Decimal,
    /// `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Parses a quantity as Kubernetes does: a decimal number and a suffix. None if it is not one, or too large.
    pub fn parse(text: &str) -> Option<Self> {
        let split = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(split);
        let (factor_ten, factor_two, notation) = suffix_of(suffix)?;
        let (negative, digits) = match number.as_bytes().first()? {
            b'-' => (true, &number[1..]),
            b'+' => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let exponent = factor_ten - i32::try_from(fraction.len()).ok()? + 9;
        let nano = scale(mantissa.checked_shl(factor_two).filter(|n| n >> factor_two == mantissa)?, exponent)?;
        // More does not fit the 64 bits that Kubernetes computes with.
        (nano <= i128::from(i64::MAX) * NANO).then_some(Self { nano: if negative { -nano } else { nano }, notation })
    }

    /// The quantity in a JSON string or number.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// So many.
    pub fn whole(count: i64) -> Self {
        Self { nano: i128::from(count) * NANO, notation: Notation::Decimal }
    }

    /// Both together, in the notation of the one that says more of it than none.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Self { nano: self.nano.saturating_add(other.nano), notation }
    }

    /// What is left without another.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_sub(other.nano), notation: self.notation }
    }

    /// How many times another it is.
    pub(crate) fn ratio_to(self, other: Self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // What is told of it has six digits.
        let number = |quantity: Self| quantity.nano as f64;
        number(self) / number(other)
    }

    /// In thousandths, rounded up: how cpu is counted.
    pub fn milli(self) -> i64 {
        self.in_steps_of(NANO / 1000)
    }

    /// In whole units, rounded up: how memory is counted.
    pub fn units(self) -> i64 {
        self.in_steps_of(NANO)
    }

    fn in_steps_of(self, step: i128) -> i64 {
        let up = self.nano.div_euclid(step) + i128::from(self.nano.rem_euclid(step) != 0);
        i64::try_from(up).unwrap_or(if up < 0 { i64::MIN } else { i64::MAX })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nano == 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nano.partial_cmp(&other.nano)
    }
}

/// Powers of ten and of two that a suffix stands for.
fn suffix_of(suffix: &str) -> Option<(i32, u32, Notation)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((*power, 0, Notation::Decimal));
    }
    if let Some(step) = BINARY.iter().position(|name| *name == suffix) {
        return Some((0, 10 * (u32::try_from(step).ok()? + 1), Notation::Binary));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    Some((power.parse().ok()?, 0, Notation::Exponent))
}

/// `mantissa * 10^exponent`, rounded up where it is finer than a billionth.
fn scale(mantissa: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    match (exponent >= 0, power) {
        (true, Some(power)) => mantissa.checked_mul(power),
        (true, None) => (mantissa == 0).then_some(0),
        (false, Some(power)) => Some(mantissa / power + i128::from(mantissa % power != 0)),
        (false, None) => Some(i128::from(mantissa != 0)),
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, and the largest suffix that allows for that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nano / NANO;
        let is_small = whole.abs() < 1024 || self.nano % NANO != 0;
        if self.notation == Notation::Binary && !is_small {
            let step = (1..=BINARY.len()).take_while(|step| whole % (1_i128 << (10 * step)) == 0).last().unwrap_or(0);
            let suffix = if step == 0 { "" } else { BINARY[step - 1] };
            return write!(f, "{}{suffix}", whole >> (10 * step));
        }
        if self.nano == 0 {
            return f.write_str("0");
        }
        let (mut amount, mut power) = (self.nano, -9);
        while amount % 1000 == 0 && power < 18 {
            amount /= 1000;
            power += 3;
        }
        match (self.notation, power) {
            (Notation::Exponent, 0) => write!(f, "{amount}"),
            (Notation::Exponent, _) => write!(f, "{amount}e{power}"),
            _ => {
                let suffix = DECIMAL.iter().find(|row| row.1 == power).map_or("", |row| row.0);
                write!(f, "{amount}{suffix}")
            }
        }
    }
}

/// Rewrites every quantity of an object in its canonical form; what is not a quantity stays, for validation to report.
pub(crate) fn canonicalize(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let below = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                if let Some(below) = below {
                    canonicalize(below, field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| canonicalize(&schema["items"], item)),
        Value::String(_) | Value::Number(_) if schema["format"] == QUANTITY => {
            if let Some(quantity) = Quantity::from_json(value) {
                *value = Value::String(quantity.to_string());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).map_or_else(|| "?".to_owned(), |quantity| quantity.to_string())
    }

    #[test]
    fn the_canonical_form_has_no_fraction_and_the_largest_suffix() {
        let expected = [
            ("1", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1025Ki", "1025Ki"),
            ("1e3", "1e3"),
            ("12E", "?"),
            ("5E", "5E"),
            ("2e-3", "2e-3"),
            ("-1500m", "-1500m"),
            ("+2", "2"),
            (".5", "500m"),
            ("5.", "5"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("123Mi", "123Mi"),
            ("100e2", "10e3"),
        ];
        for (given, wanted) in expected {
            assert_eq!(canonical(given), wanted, "{given}");
        }
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in ["", "x", "1x", "1 Gi", "1.2.3", "--1", "1GiB", "Gi", "e3", "1e", ".", "1k1", "1e999999999999"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn amounts_are_counted_in_whole_steps_rounded_up() {
        let counted = |text| Quantity::parse(text).map(|quantity| (quantity.milli(), quantity.units()));
        assert_eq!(counted("1.5"), Some((1500, 2)));
        assert_eq!(counted("1n"), Some((1, 1)));
        assert_eq!(counted("64Mi"), Some((67_108_864_000, 67_108_864)));
        assert_eq!(counted("5E"), Some((i64::MAX, 5_000_000_000_000_000_000)));
    }

    #[test]
    fn equal_amounts_are_equal_however_written() {
        assert_eq!(Quantity::parse("1024Mi"), Quantity::parse("1Gi"));
        assert!(Quantity::parse("1k") < Quantity::parse("1Ki"));
    }
}
