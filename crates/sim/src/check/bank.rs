//! A bank: money moves between accounts, so whoever reads all of them at one point sees the same sum.

use super::{Verdict, Violation};
use crate::history::{Action, History, Register};

/// Every committed transaction that read all of the accounts, and wrote none of them before, saw them hold `total` together.
///
/// Sums wrap, so an account may be negative.
pub fn check(history: &History, accounts: &[Register], total: u64) -> Verdict {
    let mut accounts = accounts.to_vec();
    accounts.sort_unstable();
    accounts.dedup();
    for (place, operation) in history.operations().iter().enumerate() {
        if !operation.committed() {
            continue;
        }
        let name = operation.transaction;
        let mut balances: Vec<Option<u64>> = vec![None; accounts.len()];
        for action in operation.actions.iter().take_while(|action| !action.changes()) {
            let Action::Read { register, value, .. } = action else { continue };
            let Ok(at) = accounts.binary_search(register) else { continue };
            let Some(value) = value else {
                let why = format!("{name} finds no account {register}");
                return Err(Violation::new(history, "bank", why, &[place]));
            };
            balances[at] = Some(*value);
        }
        let Some(balances) = balances.into_iter().collect::<Option<Vec<u64>>>() else { continue };
        let sum = balances.into_iter().fold(0, u64::wrapping_add);
        if sum != total {
            let why = format!("{name} reads {sum} in all accounts together, where {total} was paid in");
            return Err(Violation::new(history, "bank", why, &[place]));
        }
    }
    Ok(())
}
