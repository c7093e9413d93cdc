//! The stages of a call.

/// What a call is at, from its beginning to its end: it is always in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its input is read, its caller waits for a turn, and what it is paid with is verified and reserved.
    Admit,
    /// It waits for a worker, with its handler loaded.
    Queue,
    /// Its handler runs, and what it takes and gives is held against its schemas.
    Run,
    /// What the handler gave is read.
    Check,
    /// The facilitator moves the money.
    Settle,
    /// What the call leaves is stored.
    Commit,
    /// It waits for the run that its payment has bought already.
    Join,
}

impl Stage {
    /// All of them, each at its own number.
    pub const ALL: [Self; 7] = [Self::Admit, Self::Queue, Self::Run, Self::Check, Self::Settle, Self::Commit, Self::Join];

    /// As metrics and spans name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Queue => "queue",
            Self::Run => "run",
            Self::Check => "check",
            Self::Settle => "settle",
            Self::Commit => "commit",
            Self::Join => "join",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_stands_at_its_own_number() {
        assert!(Stage::ALL.iter().enumerate().all(|(number, stage)| *stage as usize == number));
    }
}
