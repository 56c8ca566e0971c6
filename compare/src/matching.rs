//! Maximum matching of parts with expectations; an expectation takes a number of parts.
//!
//! Kuhn's algorithm: a part that finds no free expectation takes the place of another part that has an alternative. So
//! an expectation stays unfulfilled only if no assignment at all could fulfil more of them.

/// Assigns parts to expectations.
#[derive(Debug)]
pub(crate) struct Matching<'a> {
    /// True where the part of a row fits the expectation of a column.
    fits: &'a [Vec<bool>],
    /// Each part's expectation.
    pub(crate) chosen: Vec<Option<usize>>,
    capacities: Vec<usize>,
    /// Number of parts for each expectation.
    pub(crate) n_parts: Vec<usize>,
}

impl<'a> Matching<'a> {
    /// Matches `fits.len()` parts with expectations of at least `least` parts first, then up to `most`.
    pub(crate) fn new(fits: &'a [Vec<bool>], least: &[usize], most: &[usize]) -> Matching<'a> {
        let mut matching = Matching {
            fits,
            chosen: vec![None; fits.len()],
            capacities: least.to_vec(),
            n_parts: vec![0; least.len()],
        };
        matching.fill();
        // Growing keeps what is fulfilled: a part that gives up its place has another one to go to.
        matching.capacities = most.to_vec();
        matching.fill();
        matching
    }

    fn fill(&mut self) {
        // What a search tried in vain stays out of reach for all later ones (Kuhn), so the whole takes little time.
        let mut hopeless = vec![false; self.capacities.len()];
        for part in 0..self.fits.len() {
            if self.chosen[part].is_none() {
                let mut tried = hopeless.clone();
                if !self.place(part, &mut tried) {
                    hopeless = tried;
                }
            }
        }
    }

    /// Finds an expectation for the part; others move to make room. No expectation is tried twice, so the depth is
    /// bounded by their number.
    fn place(&mut self, part: usize, tried: &mut [bool]) -> bool {
        for expectation in 0..self.capacities.len() {
            if !self.fits[part][expectation] || std::mem::replace(&mut tried[expectation], true) {
                continue;
            }
            let is_free = self.n_parts[expectation] < self.capacities[expectation];
            if is_free || self.make_room(expectation, tried) {
                if let Some(left) = self.chosen[part].replace(expectation) {
                    self.n_parts[left] -= 1;
                }
                self.n_parts[expectation] += 1;
                return true;
            }
        }
        false
    }

    fn make_room(&mut self, expectation: usize, tried: &mut [bool]) -> bool {
        (0..self.chosen.len())
            .any(|other| self.chosen[other] == Some(expectation) && self.place(other, tried))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest number of places among the first `least` that any assignment fills, by trying all.
    fn best(fits: &[Vec<bool>], part: usize, left: &mut Vec<usize>) -> usize {
        let Some(row) = fits.get(part) else { return 0 };
        let mut most = best(fits, part + 1, left);
        for (expectation, _) in row.iter().enumerate().filter(|(_, fits)| **fits) {
            if left[expectation] > 0 {
                left[expectation] -= 1;
                most = most.max(1 + best(fits, part + 1, left));
                left[expectation] += 1;
            }
        }
        most
    }

    #[test]
    fn matching_is_as_large_as_the_best_of_all_assignments() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below).unwrap()
        };
        for _ in 0..4000 {
            let (n_parts, n_expectations) = (random(6), random(4) + 1);
            let density = random(4) + 1;
            let fits: Vec<Vec<bool>> = (0..n_parts)
                .map(|_| (0..n_expectations).map(|_| random(5) < density).collect())
                .collect();
            let least: Vec<usize> = (0..n_expectations).map(|_| random(3)).collect();
            let most: Vec<usize> = least.iter().map(|least| least + random(3)).collect();
            let matching = Matching::new(&fits, &least, &most);
            let n_least: usize =
                (0..n_expectations).map(|at| matching.n_parts[at].min(least[at])).sum();
            assert_eq!(n_least, best(&fits, 0, &mut least.clone()), "{fits:?} {least:?}");
            let n_most = matching.chosen.iter().flatten().count();
            assert_eq!(n_most, best(&fits, 0, &mut most.clone()), "{fits:?} {most:?}");
            for (part, chosen) in matching.chosen.iter().enumerate() {
                assert!(chosen.is_none_or(|expectation| fits[part][expectation]));
            }
            assert!(most.iter().enumerate().all(|(at, most)| matching.n_parts[at] <= *most));
        }
    }
}
