//! The stages of a call.

/// A stage of a call. From start to end, a call is always in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The input is read, the caller waits for its turn, and the payment is verified and reserved.
    Admit,
    /// The call waits for a worker with its handler loaded.
    Queue,
    /// The handler runs, and input and output are validated against the schemas.
    Run,
    /// The handler's output is read.
    Check,
    /// The facilitator settles the payment.
    Settle,
    /// The call's results are stored.
    Commit,
    /// The call waits for a run that the same payment already bought.
    Join,
}

impl Stage {
    /// All stages, in order of their number.
    pub const ALL: [Self; 7] = [Self::Admit, Self::Queue, Self::Run, Self::Check, Self::Settle, Self::Commit, Self::Join];

    /// Returns the name used in metrics and spans.
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
    fn stages_are_in_order_of_their_number() {
        assert!(Stage::ALL.iter().enumerate().all(|(number, stage)| *stage as usize == number));
    }
}
