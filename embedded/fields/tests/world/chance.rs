//! Choices: of a generator of numbers that is seeded, or of bytes that a fuzzer tries out.

/// What decides, where anything would do.
pub enum Chance {
    /// Xorshift, seeded so that near seeds differ.
    Seeded(u64),
    /// Bytes, of which each choice takes two; when they are used up, the first of every choice.
    Bytes(Vec<u8>),
}

impl Chance {
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bytes(data: &[u8]) -> Self {
        Self::Bytes(data.iter().rev().copied().collect())
    }

    pub fn below(&mut self, bound: usize) -> usize {
        match self {
            Self::Seeded(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                usize::try_from(*state >> 33).unwrap() % bound
            }
            Self::Bytes(bytes) => {
                let (high, low) = (bytes.pop().unwrap_or(0), bytes.pop().unwrap_or(0));
                usize::from(u16::from_be_bytes([high, low])) % bound
            }
        }
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
