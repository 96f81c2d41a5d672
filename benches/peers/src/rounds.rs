//! Interleaved rounds, and what is told of them.

/// Results by round and contender. Each round asks every contender once and starts with another one, so that what the
/// machine does meanwhile falls on all of them alike. A first round warms up and is left out.
pub fn interleave<R>(
    rounds: usize,
    contenders: usize,
    mut measure: impl FnMut(usize) -> R,
) -> Vec<Vec<R>> {
    let mut round = |start: usize| {
        let mut results: Vec<(usize, R)> = (0..contenders)
            .map(|offset| (start + offset) % contenders)
            .map(|place| (place, measure(place)))
            .collect();
        results.sort_by_key(|&(place, _)| place);
        results.into_iter().map(|(_, result)| result).collect()
    };
    (0..=rounds).map(&mut round).skip(1).collect()
}

/// What the rounds say about one contender.
pub struct Comparison {
    pub quartiles: [f64; 3],
    /// The median over the rounds of its figure divided by that of the first contender in the same round.
    pub ratio: f64,
}

impl Comparison {
    pub fn of<R>(rounds: &[Vec<R>], contender: usize, figure: impl Fn(&R) -> f64) -> Self {
        let own = |round: &Vec<R>| figure(&round[contender]);
        let baseline = |round: &Vec<R>| figure(&round[0]);
        Self {
            quartiles: quartiles(rounds.iter().map(own)),
            ratio: quartiles(rounds.iter().map(|round| own(round) / baseline(round)))[1],
        }
    }

    pub fn median(&self) -> f64 {
        self.quartiles[1]
    }
}

/// By the nearest rank.
fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[(sorted.len() - 1) * quarter / 4])
}
