//! Questions about placement groups that requests wait for and that no node seems to hold.
//!
//! The control service is asked once a second, and says when a group is placed or gone (CTL-1: a node
//! that knows where the group is asks nothing).

use std::collections::BTreeMap;

use helio_proto::control::{Failure, FailureKind, Strategy};
use helio_proto::group::{AskGroup, GroupNews};
use helio_scheduler::GroupBundle;
use helio_types::PlacementGroupId;

use crate::context::Context;
use crate::limits::GROUP_ASK_MS;
use crate::timers::Timer;

/// The open questions about placement groups, bounded by the requests that wait; a group is forgotten when none does.
#[derive(Debug, Default)]
pub(crate) struct GroupQuestions(BTreeMap<PlacementGroupId, Question>);

#[derive(Debug)]
struct Question {
    at_ms: u64,
    /// The latest answer: empty, or why the group is not placed.
    news: Option<String>,
}

impl Question {
    fn is_placed(&self) -> bool {
        self.news.as_ref().is_some_and(String::is_empty)
    }
}

impl GroupQuestions {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The control service started anew: it has to be asked again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets the groups that nothing waits for any more.
    pub(crate) fn retain(&mut self, waits: impl Fn(PlacementGroupId) -> bool) {
        self.0.retain(|group_id, _| waits(*group_id));
    }

    /// A request waits for a group that no node seems to hold: asks, unless that was done a moment ago.
    pub(crate) fn ask(
        &mut self,
        group_id: PlacementGroupId,
        is_connected: bool,
        ctx: &mut Context,
    ) {
        let now = ctx.now();
        let asked = self.0.get(&group_id);
        if asked.is_some_and(|asked| now < asked.at_ms + GROUP_ASK_MS) {
            return;
        }
        let news = asked.and_then(|asked| asked.news.clone());
        let is_past = asked.is_none_or(|asked| asked.at_ms <= now);
        assert!(is_past, "a question of the future would keep the group from being asked about");
        self.0.insert(group_id, Question { at_ms: now, news });
        ctx.set_timer(now + GROUP_ASK_MS, Timer::Spill);
        // Without a connection the next question is the first: the group's creation goes before it.
        if is_connected {
            ctx.tell_control(AskGroup { group_id });
        }
    }

    /// Nodes have changed: a group that was placed may not be any more, and is asked about sooner.
    pub(crate) fn on_nodes_changed(&mut self, ctx: &mut Context) {
        let soon = ctx.now().saturating_sub(GROUP_ASK_MS - GROUP_ASK_MS / 10);
        for asked in self.0.values_mut().filter(|asked| asked.is_placed()) {
            let is_past = asked.at_ms <= ctx.now();
            assert!(is_past, "a group that lost its node would be asked about too late");
            asked.at_ms = asked.at_ms.min(soon);
            ctx.set_timer(asked.at_ms + GROUP_ASK_MS, Timer::Spill);
        }
    }

    /// The control service answers.
    pub(crate) fn on_news(&mut self, news: GroupNews) {
        if news.removed {
            self.0.remove(&news.group_id);
        } else if let Some(asked) = self.0.get_mut(&news.group_id) {
            asked.news = Some(news.why);
        }
    }

    /// **WHY-1** What the control service said of a group that is not placed.
    pub(crate) fn why(&self, strategy: &Strategy) -> Option<String> {
        let place = GroupBundle::of(strategy)?;
        match self.0.get(&place.group_id)?.news.as_deref().unwrap_or_default() {
            "" => None,
            why => Some(format!("placement group {} is not placed yet: {why}", place.group_id)),
        }
    }

    /// Whether the control service has said that the group is placed, and yet it does not fit.
    pub(crate) fn is_placed(&self, group_id: PlacementGroupId) -> bool {
        self.0.get(&group_id).is_some_and(Question::is_placed)
    }
}

/// The failure of requests for a group that is over.
pub(crate) fn removed(group_id: PlacementGroupId) -> Failure {
    let text = format!("the placement group {group_id} was removed");
    Failure::new(FailureKind::GroupRemoved, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;

    const GROUP: PlacementGroupId = PlacementGroupId([1; 18]);

    fn news(why: &str) -> GroupNews {
        GroupNews { group_id: GROUP, why: why.to_owned(), ..GroupNews::default() }
    }

    #[test]
    fn a_group_is_asked_about_once_a_second() {
        let (mut groups, mut ctx) = (GroupQuestions::default(), Context::new(Setup::default(), 0));
        groups.ask(GROUP, true, &mut ctx);
        groups.ask(GROUP, true, &mut ctx);
        assert_eq!(ctx.finish().len(), 1);
        ctx.begin(GROUP_ASK_MS);
        groups.ask(GROUP, false, &mut ctx);
        assert_eq!(ctx.finish().len(), 0, "there is no connection");
        groups.retain(|_| false);
        assert_eq!(groups.len(), 0);
    }

    #[test]
    fn a_group_that_was_placed_is_asked_about_sooner_when_nodes_change() {
        let (mut groups, mut ctx) = (GroupQuestions::default(), Context::new(Setup::default(), 0));
        groups.ask(GROUP, true, &mut ctx);
        groups.on_news(news("it waits for 8 CPUs"));
        assert!(!groups.is_placed(GROUP));
        groups.on_news(news(""));
        assert!(groups.is_placed(GROUP));
        ctx.finish();
        ctx.begin(GROUP_ASK_MS - 1);
        groups.on_nodes_changed(&mut ctx);
        ctx.begin(GROUP_ASK_MS);
        groups.ask(GROUP, true, &mut ctx);
        assert_eq!(ctx.finish().len(), 1);
        groups.on_news(GroupNews { removed: true, ..news("") });
        assert_eq!(groups.len(), 0);
    }
}
