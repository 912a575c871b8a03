//! Every message that stands by itself: in a frame, in another message as bytes, or in the durable log.

use helio_proto::cluster::{
    ControlToNode, NodeStatus, NodeToControl, NodeToNode, PackageAnswer, PackageRequest, Peer,
};
use helio_proto::control::{
    ActorInfo, ActorSpec, ControlRequest, ControlResponse, JobInfo, NodeInfo, Strategy,
};
use helio_proto::error::SystemError;
use helio_proto::gateway::{Began, Begin, Dial, Message};
use helio_proto::group::{GroupInfo, GroupSpec};
use helio_proto::hello::{Hello, Welcome};
use helio_proto::history::Batch;
use helio_proto::inspect::{Answer, Question};
use helio_proto::logs::{LogAnswer, LogRequest};
use helio_proto::node::{ClientToNode, JobConfig, LeaseClass, LeaseGranted, NodeToClient};
use helio_proto::template::Template;

use crate::{Target, reads_back};

const MESSAGES: &[Target] = &[
    reads_back::<ClientToNode>,
    reads_back::<NodeToClient>,
    reads_back::<NodeToControl>,
    reads_back::<ControlToNode>,
    reads_back::<NodeToNode>,
    reads_back::<Hello>,
    reads_back::<Welcome>,
    reads_back::<Template>,
    reads_back::<JobConfig>,
    reads_back::<LeaseClass>,
    reads_back::<LeaseGranted>,
    reads_back::<SystemError>,
    reads_back::<ControlRequest>,
    reads_back::<ControlResponse>,
    reads_back::<ActorInfo>,
    reads_back::<ActorSpec>,
    reads_back::<JobInfo>,
    reads_back::<NodeInfo>,
    reads_back::<NodeStatus>,
    reads_back::<Strategy>,
    reads_back::<GroupInfo>,
    reads_back::<GroupSpec>,
    reads_back::<Question>,
    reads_back::<Answer>,
    reads_back::<PackageRequest>,
    reads_back::<Peer>,
    reads_back::<PackageAnswer>,
    reads_back::<LogRequest>,
    reads_back::<LogAnswer>,
    reads_back::<Begin>,
    reads_back::<Began>,
    reads_back::<Message>,
    reads_back::<Dial>,
    reads_back::<Batch>,
];

/// Decodes a message; the first byte chooses its kind.
pub fn messages(bytes: &[u8]) {
    if let Some((&choice, body)) = bytes.split_first() {
        MESSAGES[usize::from(choice) % MESSAGES.len()](body);
    }
}
