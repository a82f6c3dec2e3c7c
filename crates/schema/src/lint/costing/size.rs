//! Sizes that are known within limits, and the arithmetic of estimates: rounded up, and never past the largest number.

/// How many characters, bytes, items or entries a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// A size that covers both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of going through it all, at so much a unit.
    pub(super) fn at(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// A number times a factor, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate is made in floating point, and is never negative; what is too large becomes the largest"
)]
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// How large the keys and the values of a list or map are; a list's keys are its indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Entries {
    pub(super) fn or(self, other: Self) -> Self {
        Self { list: self.list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}
