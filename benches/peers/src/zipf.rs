//! Skewed draws: a few keys are asked for most of the time.

use crate::inputs::Random;

/// Zipf's law over `0..bound`: the number of rank `r`, from 1, is drawn with a probability in proportion to
/// `r^-exponent`. By rejection-inversion (Hörmann, Derflinger 1996), in constant time.
///
/// Ranks are scattered over the numbers, so that hot keys are neither all present nor neighbours in memory.
pub struct Zipf {
    bound: usize,
    exponent: f64,
    /// The area under the hat, from the left end of rank 1, cut to its probability, to the right end of the last rank.
    area: (f64, f64),
    /// A point this close to its rank needs no comparison.
    sure: f64,
    stride: usize,
}

impl Zipf {
    pub fn new(bound: usize, exponent: f64) -> Self {
        let mut zipf = Self {
            bound,
            exponent,
            area: (0.0, 0.0),
            sure: 0.0,
            stride: stride(bound),
        };
        zipf.area = (zipf.integral(1.5) - 1.0, zipf.integral(bound as f64 + 0.5));
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let rank = self.rank(random);
        ((rank - 1) as u128 * self.stride as u128 % self.bound as u128) as usize
    }

    fn rank(&self, random: &mut Random) -> usize {
        let (low, high) = self.area;
        loop {
            let area = high + random.fraction() * (low - high);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.bound as f64);
            let lies_near = rank - point <= self.sure;
            if lies_near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as usize;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// An antiderivative of `density`.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 {
            x.ln()
        } else {
            x.powf(power) / power
        }
    }

    /// The inverse of `integral`.
    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 {
            area.exp()
        } else {
            (area * power).powf(1.0 / power)
        }
    }
}

/// A step that visits all of `0..bound` and keeps successive visits far apart: about the golden section.
fn stride(bound: usize) -> usize {
    let golden = (bound as f64 * 0.618_034) as usize;
    (golden.max(1)..)
        .find(|&step| greatest_common_divisor(step, bound) == 1)
        .unwrap()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const DRAWS: usize = 1_000_000;
        const BOUND: usize = 1_000;
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(BOUND, exponent);
            let mut random = Random::new(7);
            let mut counts = [0_usize; BOUND + 1];
            (0..DRAWS).for_each(|_| counts[zipf.rank(&mut random)] += 1);
            let weight = |rank: usize| (rank as f64).powf(-exponent);
            let total: f64 = (1..=BOUND).map(weight).sum();
            for rank in [1, 2, 3, 10, 100, BOUND] {
                let expected = DRAWS as f64 * weight(rank) / total;
                let deviation = (counts[rank] as f64 - expected).abs();
                assert!(
                    deviation < 5.0 * expected.sqrt() + 1.0,
                    "exponent {exponent}, rank {rank}: {} instead of {expected}",
                    counts[rank]
                );
            }
        }
    }

    #[test]
    fn every_number_has_a_rank() {
        for bound in [1, 2, 3, 16, 1_000, 1_024, 99_991] {
            let step = stride(bound);
            let mut numbers: Vec<usize> = (0..bound).map(|rank| rank * step % bound).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..bound), "bound {bound}");
        }
    }
}
