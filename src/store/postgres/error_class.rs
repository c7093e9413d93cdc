//! Classifies database errors.

use tokio_postgres::{
    Error,
    error::{Severity, SqlState},
};

/// The known outcome of a failed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// Nothing was written because of a conflict with other transactions. Retry.
    Again,
    /// Nothing was written, because another transaction held a row lock until the timeout.
    Locked,
    /// Nothing was written.
    Refused,
    /// It may have been written.
    Unknown,
}

/// Classifies the error of a transaction that was sent.
pub(super) fn judge(error: &Error) -> ErrorClass {
    match error.code() {
        // The server crashed during the transaction. Only its recovery will show what is on disk.
        Some(_) if error.as_db_error().is_some_and(|message| message.parsed_severity() == Some(Severity::Panic)) => ErrorClass::Unknown,
        Some(code) if is_race(code) => ErrorClass::Again,
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => ErrorClass::Locked,
        Some(code) if is_end(code) => ErrorClass::Unknown,
        Some(_) => ErrorClass::Refused,
        None => ErrorClass::Unknown,
    }
}

/// Returns whether a read can be retried on another connection.
pub(super) fn passes(error: &Error) -> bool {
    let passes = |code: &SqlState| {
        is_race(code)
            || is_end(code)
            || *code == SqlState::LOCK_NOT_AVAILABLE
            || ["57P", "25"].iter().any(|class| code.code().starts_with(class))
    };
    error.code().is_none_or(passes)
}

/// Returns whether the error is a race with other transactions: a row inserted first, or a deadlock.
fn is_race(code: &SqlState) -> bool {
    [SqlState::UNIQUE_VIOLATION, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// Returns whether the connection has ended, or a proxy does not know how the transaction ended.
fn is_end(code: &SqlState) -> bool {
    let ends = [SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN, SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
    code.code().starts_with("08") || ends.contains(code)
}

/// Formats an error on one line, with the database's own message.
pub(super) fn describe(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(message), _) => format!("{} ({})", message.message(), message.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
