//! Reads the movements of a balance.

use std::{fmt, num::ParseIntError, str::FromStr};

use tollhouse_api::CreditMovement;
use tollhouse_base::{boxed, id::CreditId};
use tollhouse_store::{Direction, StoreError};
use tollhouse_tool::UsdChange;

use super::{
    Credits,
    row::{BALANCE, CreditRow, LINES, Movement},
};

/// A page of movements, newest first.
#[derive(Debug)]
pub struct MovementPage {
    /// The movements, up to the limit, each with the balance after it. The balance is computed, because it is
    /// not known before the commit of the movement.
    pub movements: Vec<CreditMovement>,
    /// The position of the next page, if there are older movements.
    pub next: Option<MovementPosition>,
}

/// A position in the list of a credit's movements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovementPosition {
    before: u64,
    balance: i128,
}

impl Credits {
    /// Returns at most `limit` movements of a credit, newest first, starting after `place`.
    #[boxed]
    pub async fn movements(&self, id: &CreditId, position: Option<MovementPosition>, limit: usize) -> Result<MovementPage, StoreError> {
        // The first page reads the balance in the same scan, and so from the same snapshot.
        let (range, rows) = match position {
            Some(position) => (LINES.under(id).before(&(id.clone(), position.before)), limit + 1),
            None => (LINES.under(id), limit + 2),
        };
        let mut balance = position.map_or(0, |position| position.balance);
        let (mut movements, mut last, mut next) = (Vec::with_capacity(limit), BALANCE, None);
        for row in LINES.page(&*self.store, &range, rows, Direction::Backward).await? {
            match row.value {
                CreditRow::Balance(sum) => balance = sum,
                CreditRow::Movement(movement) if movements.len() < limit => {
                    let change = movement.change();
                    let Movement { at, kind, amount: amount_usd, receipt_id, slug } = movement;
                    movements.push(CreditMovement { at, kind, amount_usd, receipt_id, slug, balance_usd: UsdChange::of(balance) });
                    balance -= change;
                    last = row.key.1;
                }
                CreditRow::Movement(_) => next = Some(MovementPosition { before: last, balance }),
            }
        }
        Ok(MovementPage { movements, next })
    }
}

impl fmt::Display for MovementPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.before, self.balance)
    }
}

impl FromStr for MovementPosition {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (before, balance) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self { before: before.parse()?, balance: balance.parse()? })
    }
}
