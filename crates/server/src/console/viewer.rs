//! Who looks at the console, and what of it he sees: what his rights cover.

use std::sync::Arc;

use tyr_proto::access::{Entitlement, Rights, Scope};
use tyr_types::KeyspaceId;

use super::view::{ClusterView, HeatView, NodeView, PinView, SlowView, ViewerView};
use crate::guard::{Caller, Registry, Who};

/// Somebody who looks.
#[derive(Debug)]
pub(crate) struct Viewer {
    /// With whose rights; none where nobody is asked who he is. Then everything is seen, and nothing can be done.
    caller: Option<Arc<Caller>>,
    rights: Arc<Entitlement>,
}

impl Viewer {
    /// Whoever reaches a node that asks nobody who he is.
    pub fn anybody() -> Self {
        Viewer { caller: None, rights: Arc::new(Entitlement::full()) }
    }

    /// Somebody who was let in; none if he is entitled to nothing any more.
    pub fn of(caller: Arc<Caller>, registry: &Registry) -> Option<Self> {
        let rights = caller.entitlement(registry)?;
        Some(Viewer { caller: Some(caller), rights })
    }

    /// Who it is, if anybody was asked.
    pub fn caller(&self) -> Option<&Arc<Caller>> {
        self.caller.as_ref()
    }

    fn administers(&self) -> bool {
        self.rights.allows(Scope::Cluster, Rights::ADMINISTER)
    }

    fn reads(&self, keyspace: u32) -> bool {
        self.rights.rights(KeyspaceId(keyspace)).has(Rights::READ)
    }

    /// Of a keyspace somebody sees how busy it is who may do anything in it.
    fn knows(&self, keyspace: u32) -> bool {
        self.rights.rights(KeyspaceId(keyspace)) != Rights::NONE
    }

    /// Leaves of what there is to see of a cluster what this one sees.
    pub fn see_cluster(&self, view: &mut ClusterView) {
        let user = self.caller.as_ref().map(|caller| match &caller.who {
            Who::User(name, _) => name.to_string(),
            Who::Operator => "who knows the secret".to_owned(),
        });
        view.viewer = ViewerView { administers: user.is_some() && self.administers(), user };
        view.keyspaces.retain(|keyspace| self.knows(keyspace.keyspace));
        self.see_blobs(&mut view.hot, &mut view.contended, &mut view.oldest_pin, &mut view.slow);
    }

    /// The same of a node.
    pub fn see_node(&self, view: &mut NodeView) {
        view.keyspaces.retain(|keyspace| self.knows(keyspace.keyspace));
        view.held.retain(|held| self.knows(held.keyspace));
        self.see_blobs(&mut view.hot, &mut view.contended, &mut view.oldest_pin, &mut view.slow);
    }

    fn see_blobs(
        &self,
        hot: &mut Vec<HeatView>,
        contended: &mut Vec<HeatView>,
        pin: &mut Option<PinView>,
        slow: &mut Vec<SlowView>,
    ) {
        let sees =
            |keyspace: Option<u32>| keyspace.map_or(self.administers(), |keyspace| self.reads(keyspace));
        hot.retain(|heat| self.reads(heat.keyspace));
        contended.retain(|heat| self.reads(heat.keyspace));
        pin.take_if(|pin| !sees(pin.keyspace));
        if let Some(pin) = pin
            && !self.administers()
        {
            // From where others come is no business of a user's, and who knows their sessions could say things in their names.
            pin.client.clear();
            pin.session.clear();
            pin.request.clear();
        }
        slow.retain(|slow| sees(slow.keyspace));
        if !self.administers() {
            slow.iter_mut().for_each(|slow| slow.request.clear());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::console::view::KeyspaceWorkView;

    fn view() -> NodeView {
        let heat =
            |keyspace| HeatView { keyspace, blob: format!("blob of {keyspace}"), ..HeatView::default() };
        let slow = |keyspace| SlowView { keyspace, request: "t7.1".into(), ..SlowView::default() };
        let work = |keyspace| KeyspaceWorkView { keyspace, ..KeyspaceWorkView::default() };
        NodeView {
            keyspaces: [1, 2, 3].map(work).into(),
            hot: [1, 2, 3].map(heat).into(),
            contended: [3, 1].map(heat).into(),
            oldest_pin: Some(PinView {
                keyspace: Some(1),
                client: "10.0.0.1:5".into(),
                session: "7".into(),
                request: "r7.1".into(),
                ..PinView::default()
            }),
            slow: [Some(1), None, Some(2)].map(slow).into(),
            ..NodeView::default()
        }
    }

    fn seen_with(granted: &[(Scope, Rights)]) -> NodeView {
        let rights = Arc::new(Entitlement::full().limited(granted));
        let mut seen = view();
        Viewer { caller: None, rights }.see_node(&mut seen);
        seen
    }

    #[test]
    fn blobs_are_named_to_those_who_may_read_them_and_keyspaces_to_those_who_may_do_anything_there() {
        let one = |id, rights| (Scope::Keyspace(KeyspaceId(id)), rights);
        let seen = seen_with(&[one(1, Rights::READ), one(2, Rights::WRITE)]);
        let ids = |heats: &[HeatView]| heats.iter().map(|heat| heat.keyspace).collect::<Vec<_>>();
        assert_eq!((ids(&seen.hot), ids(&seen.contended)), (vec![1], vec![1]));
        assert_eq!(seen.keyspaces.iter().map(|work| work.keyspace).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(seen.slow.iter().map(|slow| slow.keyspace).collect::<Vec<_>>(), [Some(1)]);
        assert!(seen.slow.iter().all(|slow| slow.request.is_empty()), "not in whose session");
        let pin = seen.oldest_pin.unwrap();
        assert_eq!([pin.client, pin.session, pin.request], ["", "", ""], "not from where");
        assert!(seen_with(&[one(2, Rights::ALL)]).oldest_pin.is_none());
    }

    #[test]
    fn who_administers_the_cluster_sees_everything() {
        let mut seen = view();
        Viewer::anybody().see_node(&mut seen);
        assert_eq!((seen.hot.len(), seen.slow.len(), seen.keyspaces.len()), (3, 3, 3));
        assert!(seen.slow.iter().all(|slow| slow.request == "t7.1"));
        let pin = seen.oldest_pin.unwrap();
        assert_eq!([pin.client, pin.session, pin.request], ["10.0.0.1:5", "7", "r7.1"]);
    }
}
