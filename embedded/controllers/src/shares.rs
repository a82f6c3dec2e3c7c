//! Numbers that may be given as a share of another: `25%` of ten is three or two, as it is rounded.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a share that does not come out even is rounded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// The number that a value means where the whole is `total`. What the API would not have taken means nothing.
pub(crate) fn of(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or(0);
            let hundredths = percent * i64::from(total);
            let number = match round {
                Round::Up => (hundredths + 99).div_euclid(100),
                Round::Down => hundredths.div_euclid(100),
            };
            i32::try_from(number).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_as_asked_and_a_number_is_itself() {
        let share = |text: &str| IntOrString::String(text.into());
        for (value, total, up, down) in [
            (share("25%"), 10, 3, 2),
            (share("25%"), 4, 1, 1),
            (share("0%"), 4, 0, 0),
            (share("100%"), 7, 7, 7),
            (share("a few"), 7, 0, 0),
            (IntOrString::Int(3), 1, 3, 3),
        ] {
            assert_eq!(
                (of(Some(&value), total, Round::Up), of(Some(&value), total, Round::Down)),
                (up, down),
                "{value:?}"
            );
        }
        assert_eq!(of(None, 10, Round::Up), 0);
    }
}
