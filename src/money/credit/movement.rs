//! Reads the movements of a balance.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::Serialize;
use tollhouse_base::id::CreditId;
use tollhouse_store::{Direction, StoreError};
use tollhouse_tool::UsdChange;

use super::{
    Credits,
    line::{LINES, Line, Movement},
    number::BALANCE,
};

/// A movement with the balance after it. The balance is not stored with it, because it is not known before the commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The movement.
    #[serde(flatten)]
    pub movement: Movement,
    /// The balance after it, in the order in which movements are read.
    #[serde(rename = "balanceUsd")]
    pub balance: UsdChange,
}

/// A page of movements, newest first.
#[derive(Debug)]
pub struct Movements {
    /// The movements, up to the limit.
    pub movements: Vec<Moved>,
    /// The position of the next page, if there are older movements.
    pub next: Option<MovementPlace>,
}

/// A position in the list of a credit's movements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovementPlace {
    /// Number of the last movement that was read.
    before: u64,
    /// The balance before that movement.
    balance: i128,
}

impl Credits {
    /// Returns at most `limit` movements of a credit, newest first, starting after `place`.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn movements(&self, id: &CreditId, place: Option<MovementPlace>, limit: usize) -> Result<Movements, StoreError> {
        // The first page reads the balance in the same scan, and so from the same snapshot.
        let (range, rows) = match place {
            Some(place) => (LINES.under(id).before(&(id.clone(), place.before)), limit + 1),
            None => (LINES.under(id), limit + 2),
        };
        let mut balance = place.map_or(0, |place| place.balance);
        let (mut movements, mut last, mut next) = (Vec::with_capacity(limit), BALANCE, None);
        for row in LINES.page(&*self.store, &range, rows, Direction::Backward).await? {
            match row.value {
                Line::Balance(sum) => balance = sum,
                Line::Movement(movement) if movements.len() < limit => {
                    let change = movement.change();
                    movements.push(Moved { movement, balance: UsdChange::of(balance) });
                    balance -= change;
                    last = row.key.1;
                }
                Line::Movement(_) => next = Some(MovementPlace { before: last, balance }),
            }
        }
        Ok(Movements { movements, next })
    }
}

impl fmt::Display for MovementPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.before, self.balance)
    }
}

impl FromStr for MovementPlace {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (before, balance) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self { before: before.parse()?, balance: balance.parse()? })
    }
}
