//! Random work on a session: everything that a store can be asked to do, in any order.

use tyr_store::Maintained;
use tyr_types::{Durability, Key, KeyspaceId, KeyspaceSettings, Result};

use super::{
    chance::{Chance, pattern},
    model::{Edit, State, key},
    session::Session,
};

/// One random step. Fails as the step does.
pub fn step(session: &mut Session, chance: &mut Chance) -> Result<()> {
    let spaces: Vec<KeyspaceId> = session.state().spaces.keys().copied().collect();
    if spaces.is_empty() {
        return create_space(session, chance);
    }
    match chance.below(100) {
        0..50 => session.commit(&edits(session.state(), chance, &spaces)).map(drop),
        50..65 => {
            // Acknowledged by whatever is waited for later.
            let edits = edits(session.state(), chance, &spaces);
            session.send(&edits).map(drop)
        }
        65..70 => {
            session.store().drive_commits_once();
            Ok(())
        }
        70..85 => {
            for _ in 0..=chance.below(5) {
                if session.store().maintain()? == Maintained::Idle {
                    break;
                }
            }
            Ok(())
        }
        85..88 => session.checkpoint(),
        88..90 => session.store().compact().map(drop),
        90..92 => session.flush(),
        92..94 if spaces.len() < 4 => create_space(session, chance),
        94..95 if spaces.len() > 1 => session.drop_space(chance.pick(&spaces)),
        95..96 => {
            let id = chance.pick(&spaces);
            let settings = KeyspaceSettings {
                quota: Some(chance.number()),
                durability: durability(chance),
                ..session.state().space(id).settings.clone()
            };
            session.alter_space(id, settings)
        }
        96..97 => session.reopen(),
        97..98 => {
            session.flush()?;
            session.kill()
        }
        _ => session
            .store()
            .check()
            .map(|report| assert_eq!((report.damage, report.miscounted), (Vec::new(), 0))),
    }
}

fn durability(chance: &mut Chance) -> Durability {
    if chance.once_in(3) { Durability::Memory } else { Durability::Disk }
}

fn create_space(session: &mut Session, chance: &mut Chance) -> Result<()> {
    let settings = KeyspaceSettings {
        durability: durability(chance),
        multi_version: !chance.once_in(4),
        ..KeyspaceSettings::default()
    };
    let name = format!("space-{}", session.state().next_space().0);
    session.create_space(&name, settings).map(drop)
}

/// The changes of one transaction: one to three blobs, in any keyspaces.
fn edits(state: &State, chance: &mut Chance, spaces: &[KeyspaceId]) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for _ in 0..=chance.below(3) {
        let (space, key) = (chance.pick(spaces), chance.pick(&keys()));
        if edits.iter().all(|edit| (edit.space, &edit.key) != (space, &key)) {
            edits.push(edit(state, chance, space, &key));
        }
    }
    edits
}

fn keys() -> [Key; 5] {
    ["a", "b", "c", "d", "far"].map(key)
}

fn edit(state: &State, chance: &mut Chance, space: KeyspaceId, key: &Key) -> Edit {
    let exists = state.blob(space, key).is_some();
    if exists && chance.once_in(8) {
        return Edit::delete(space, key);
    }
    let mut edit = match exists {
        true if chance.once_in(10) => Edit::replace(space, key),
        _ => Edit::any(state, space, key),
    };
    if edit.size > 0 && chance.once_in(4) {
        let size = chance.below(edit.size + 70_000);
        edit = edit.truncate(size);
    }
    if chance.once_in(8) {
        let value = pattern(chance.number(), chance.index(300));
        edit = edit.attribute(state, chance.pick(&["one", "two"]), Some(&value));
    }
    if !chance.once_in(6) {
        edit = write(edit, chance, key);
    }
    if chance.once_in(4) { edit.staged() } else { edit }
}

fn write(edit: Edit, chance: &mut Chance, key: &Key) -> Edit {
    let bytes = pattern(chance.number(), length(chance));
    if chance.once_in(3) && edit.size < 400_000 {
        return edit.append(bytes);
    }
    let offset = match chance.below(4) {
        0 => 0,
        1 => 65_536 * (1 + chance.below(2)) - chance.below(2000),
        _ => chance.below(200_000),
    };
    let far = if key.as_bytes() == b"far" { chance.pick(&[0, 1 << 40, (1 << 62) - 5000]) } else { 0 };
    edit.write(offset + far, bytes)
}

fn length(chance: &mut Chance) -> usize {
    let most = chance.pick(&[10, 600, 5000, 9000, 40_000, 130_000]);
    1 + chance.index(most)
}
