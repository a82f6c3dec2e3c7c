//! Numbers with a meaning: ports, replica counts, quorum sizes, sizes with units.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::text::text;

/// Defines an integer newtype with bounds and, optionally, CEL rules.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $min:literal ..= $max:literal $(, [$rule:literal, $message:literal, $check:expr])?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i32);

        impl $name {
            /// The only way in: `Err` says what is wrong and how to fix it.
            pub fn new(number: i64) -> Result<Self, String> {
                if !($min..=$max).contains(&number) {
                    return Err(format!("{number} is out of range; use {} to {}", $min, $max));
                }
                $(let check: fn(i64) -> bool = $check;
                if !check(number) {
                    return Err(format!("{number} {}", $message));
                })?
                Ok(Self(i32::try_from(number).expect("the bounds fit an i32")))
            }

            /// The number.
            pub fn get(self) -> i32 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;
            fn try_from(number: i64) -> Result<Self, String> {
                Self::new(number)
            }
        }

        impl From<$name> for i64 {
            fn from(number: $name) -> Self {
                number.0.into()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                #[allow(unused_mut)]
                let mut schema = json_schema!({"type": "integer", "format": "int32", "minimum": $min, "maximum": $max});
                $(schema.insert(
                    "x-kubernetes-validations".into(),
                    serde_json::json!([{"rule": $rule, "message": $message}]),
                );)?
                schema
            }
        }
    };
}

number! {
    /// A TCP port.
    Port, 1..=65535
}

number! {
    /// How many copies of a stateless workload run; 0 switches it off.
    Replicas, 0..=100
}

number! {
    /// How many members a cluster that votes has. Two halves of an even number can block each other, and an even
    /// number survives no more failures than the odd one below it.
    Quorum, 1..=9,
    ["self % 2 == 1", "is even, so two halves can block each other; use an odd number such as 1, 3 or 5", |n| n % 2 == 1]
}

number! {
    /// How many Fernet keys are kept: at least a primary, a staged and a secondary one.
    FernetKeys, 3..=100
}

text! {
    /// A quantity as Kubernetes writes it: a number with an optional unit, such as `100Gi`.
    Size, max 32,
    ["isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
     "is not a size above zero; write a number with a unit, such as 10Gi or 512Mi"],
    |text| match super::quantity::bytes(text) {
        Some(size) if size >= LARGEST => Err(format!("{text:?} is more than Kubernetes counts; write less than 1Ei")),
        Some(size) if size > 0.0 => Ok(()),
        _ => Err(format!("{text:?} is not a size above zero; write a number with a unit, such as 10Gi or 512Mi")),
    }
}

/// Kubernetes counts bytes in 63 bits.
const LARGEST: f64 = 1_152_921_504_606_846_976.0;

impl Size {
    /// The size in bytes, rounded down.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The constructor took only positive sizes.
    pub fn bytes(&self) -> u64 {
        super::quantity::bytes(self.as_str()).unwrap_or_default() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_odd_and_positive() {
        assert_eq!(Quorum::new(3).unwrap().get(), 3);
        assert!(Quorum::new(4).unwrap_err().contains("odd"));
        assert!(Quorum::new(-1).is_err());
        assert!(Quorum::new(0).is_err());
    }

    #[test]
    fn sizes_count_bytes() {
        assert_eq!(Size::new("1Gi").unwrap().bytes(), 1 << 30);
        assert_eq!(Size::new("1500M").unwrap().bytes(), 1_500_000_000);
        assert!(Size::new("100Gx").is_err());
        assert!(Size::new("0").is_err());
        assert!(Size::new("100Ei").unwrap_err().contains("write less than 1Ei"));
    }
}
