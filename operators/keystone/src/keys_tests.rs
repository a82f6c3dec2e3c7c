use super::*;

const HOUR: u64 = 3600;

fn key(number: u8) -> Key {
    Key::new([number; 32])
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).unwrap()).unwrap()
}

fn first() -> State {
    State::new(KeySet::new(key(100), key(101)), at(0))
}

fn numbers(state: &State) -> Vec<u32> {
    state.keys.0.keys().copied().collect()
}

#[test]
fn a_rotation_promotes_the_staged_key_to_the_highest_number() {
    let state = first();
    let (next, outcome) = state.clone().propose(Some(Ok(state.keys.rotated(key(1)))), at(HOUR));
    assert_eq!(outcome, Outcome::Taken);
    assert_eq!(numbers(&next), [0, 1, 2]);
    assert_eq!((next.keys.get(2), next.keys.get(0)), (state.keys.get(0), Some(key(1))));
    assert_eq!(next.since, [(1, at(0)), (2, at(HOUR))].into());
}

#[test]
fn the_same_proposal_is_taken_once() {
    let proposal = first().keys.rotated(key(1));
    let (next, _) = first().propose(Some(Ok(proposal.clone())), at(HOUR));
    assert_eq!(next.clone().propose(Some(Ok(proposal)), at(2 * HOUR)), (next, Outcome::Nothing));
}

#[test]
fn a_rotation_waits_until_every_pod_has_the_staged_key() {
    let proposal = Some(Ok(first().keys.rotated(key(1))));
    let (state, outcome) = first().propose(proposal, at(30));
    assert_eq!((state, outcome), (first(), Outcome::Later(Duration::from_secs(90))));
}

#[test]
fn what_does_not_follow_from_the_present_set_is_refused() {
    let present = first().keys;
    let strangers = [
        KeySet::new(key(1), key(2)),
        present.rotated(key(1)).rotated(key(2)),
        present.rotated(key(101)),
        KeySet([(0, key(1)), (2, key(100))].into()),
    ];
    for stranger in strangers {
        let (state, outcome) = first().propose(Some(Ok(stranger)), at(HOUR));
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        assert_eq!(state, first());
    }
    assert_eq!(first().propose(Some(Err("torn".into())), at(HOUR)).1, Outcome::Refused("torn".into()));
}

#[test]
fn a_set_that_is_no_set_is_not_read() {
    let secret = |entries: &[(&str, &str)]| {
        KeySet::read(
            &entries.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec()))).collect(),
        )
    };
    let good = URL_SAFE.encode([7; 32]);
    let other = URL_SAFE.encode([8; 32]);
    assert!(secret(&[("0", &good), ("1", &other)]).is_ok());
    assert!(secret(&[("0", &good)]).unwrap_err().contains("staged and a primary"));
    assert!(secret(&[("1", &good), ("2", &other)]).unwrap_err().contains("staged and a primary"));
    assert!(secret(&[("0", &good), ("1", &good)]).unwrap_err().contains("twice"));
    assert!(secret(&[("0", &good), ("1", "short")]).unwrap_err().contains("32 bytes"));
    assert!(secret(&[("0", &good), ("one", &other)]).unwrap_err().contains("number"));
}

#[test]
fn a_key_that_tokens_may_need_stays_beyond_the_number() {
    let keep = Keep { most: 3, life: Duration::from_secs(HOUR) };
    let mut state = first();
    for rotation in 1..=4 {
        let now = at(u64::from(rotation) * 600);
        state = state.clone().propose(Some(Ok(state.keys.rotated(key(rotation)))), now).0.prune(keep, now).0;
    }
    assert_eq!(numbers(&state), [0, 1, 2, 3, 4, 5], "four rotations within the life of a token drop nothing");
    let (state, again) = state.prune(keep, at(600 + HOUR + 120));
    assert_eq!(numbers(&state), [0, 2, 3, 4, 5]);
    assert_eq!(again, Some(Duration::from_mins(10)));
    assert_eq!(numbers(&state.prune(keep, at(HOUR * 9)).0), [0, 4, 5]);
}

#[test]
fn an_unknown_past_is_taken_to_be_recent() {
    let keys = first().keys.rotated(key(1)).rotated(key(2)).rotated(key(3));
    let state = State::known(keys, history("1=broken,9=2026-01-01T00:00:00Z"), at(0));
    let keep = Keep { most: 3, life: Duration::from_secs(HOUR) };
    assert_eq!(state.clone().prune(keep, at(60)).0, state);
    assert_eq!(history(&written(&state.since)), state.since);
}

#[test]
fn neither_a_key_nor_a_set_is_printed() {
    assert!(!format!("{:?}", first()).contains("100"));
}

/// A pod that takes up to [`PROPAGATION`] to see a new set.
struct Pods {
    /// Each set that there was, with the time from which it was there.
    sets: Vec<(u64, KeySet)>,
}

impl Pods {
    /// Every set that some pod may have at a time: the last, and those that were replaced less than the delay ago.
    fn may_have(&self, now: u64) -> Vec<&KeySet> {
        let replaced = |index: usize| self.sets.get(index + 1).map(|(since, _)| *since);
        let recent = |until: Option<u64>| until.is_none_or(|until| now < until + PROPAGATION.as_secs());
        let known = self.sets.iter().enumerate().filter(|(_, (since, _))| *since <= now);
        known.filter(|(index, _)| recent(replaced(*index))).map(|(_, (_, set))| set).collect()
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn no_pod_ever_meets_a_token_that_it_cannot_read() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let life = 60 + dice.roll(3 * HOUR);
        let keep = Keep { most: usize::try_from(3 + dice.roll(4)).unwrap(), life: Duration::from_secs(life) };
        let mut state = first();
        let mut pods = Pods { sets: vec![(0, state.keys.clone())] };
        let (mut now, mut made) = (0, 0u8);
        // Rotations at any pace: in a row, late, and many at once.
        while made < 40 {
            now += 1 + dice.roll(900);
            let before = state.clone();
            if dice.roll(3) > 0 {
                made += 1;
                state = state.clone().propose(Some(Ok(state.keys.rotated(key(made)))), at(now)).0;
            }
            state = state.prune(keep, at(now)).0;
            if state.keys != before.keys {
                pods.sets.push((now, state.keys.clone()));
            }
        }
        for minted in (0..now).step_by(61) {
            let keys: Vec<Key> = pods
                .may_have(minted)
                .into_iter()
                .map(|set| set.get(set.primary()).expect("there is a primary"))
                .collect();
            for read in (minted..minted + life).step_by(97) {
                for set in pods.may_have(read) {
                    assert!(
                        keys.iter().all(|key| set.0.values().any(|held| held == key)),
                        "seed {seed}: made at {minted}, not readable at {read} by {:?}",
                        set.0.keys().collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}
