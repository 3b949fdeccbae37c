//! Chance that is the same in every run, for walks through worlds too large to search.

/// Numbers that are the same in every run: a linear congruential generator with Knuth's multiplier.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    pub(crate) fn few(&mut self, bound: usize) -> u8 {
        u8::try_from(self.below(bound)).expect("it is small")
    }
}
