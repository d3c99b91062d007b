//! Exploration of all orders in which a few events can happen.

/// Enumerates all sequences of choices. Each run of the test follows one sequence.
#[derive(Default)]
pub struct Chooser {
    /// Choices of the present run: for each choice, the chosen index and the number of alternatives.
    path: Vec<(usize, usize)>,
    at: usize,
}

impl Chooser {
    /// Returns the index of one of `among` alternatives.
    pub fn choose(&mut self, among: usize) -> usize {
        if self.at == self.path.len() {
            self.path.push((0, among));
        }
        let (chosen, seen) = self.path[self.at];
        assert_eq!(seen, among, "a run is not a function of its choices");
        self.at += 1;
        chosen
    }

    /// Changes to the next sequence of choices. Returns false after the last one.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, among)) = self.path.pop() {
            if chosen + 1 < among {
                self.path.push((chosen + 1, among));
                return true;
            }
        }
        false
    }
}

/// Calls `run` for every sequence of choices, until a run finds a stale read. Returns the number of runs, and the
/// description of the stale read if there was one.
pub fn explore(mut run: impl FnMut(&mut Chooser) -> Result<(), String>) -> (u64, Option<String>) {
    let (mut chooser, mut runs) = (Chooser::default(), 0);
    loop {
        runs += 1;
        if let Err(stale) = run(&mut chooser) {
            return (runs, Some(stale));
        }
        if !chooser.next() {
            return (runs, None);
        }
    }
}

impl std::fmt::Debug for Chooser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.path[..self.at].iter().map(|(chosen, _)| chosen))
            .finish()
    }
}
