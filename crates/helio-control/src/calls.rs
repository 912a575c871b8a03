//! A head that has taken over tells the nodes of before where it is: they cannot know.

use std::time::Duration;

use helio_proto::cluster::{HeadMoved, NodeToNode};
use helio_proto::hello::{Destination, Hello, Role};
use helio_rpc::service::connect_tcp;
use helio_types::NodeAddress;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// A node that is not reached is tried for so long, and so often.
const CALL_MAX: Duration = Duration::from_secs(60);
const TRY_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);

/// Calls that go on; they end with this.
#[derive(Debug)]
pub(crate) struct Calls(Vec<JoinHandle<()>>);

impl Calls {
    /// Calls each of these nodes.
    pub(crate) fn start<'a>(
        nodes: impl Iterator<Item = &'a NodeAddress>,
        token: &str,
        news: &HeadMoved,
    ) -> Self {
        let hello = Hello {
            token: token.to_owned(),
            role: Role::Node,
            pid: std::process::id(),
            host: news.host.clone(),
            port: news.port,
            to: Destination::Daemon as u32,
            ..Hello::default()
        };
        let call = |node: &NodeAddress| {
            tokio::spawn(call(node.clone(), hello.clone(), NodeToNode::HeadMoved(news.clone())))
        };
        Self(nodes.map(call).collect())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for call in &self.0 {
            call.abort();
        }
    }
}

async fn call(node: NodeAddress, hello: Hello, news: NodeToNode) {
    let until = Instant::now() + CALL_MAX;
    // The address may be another node's by now, which then refuses.
    let hello = Hello { to_node: node.node_id, ..hello };
    let port = u16::try_from(node.port).unwrap_or_default();
    while Instant::now() < until {
        let told = async {
            let (mut reader, writer, _) =
                connect_tcp(&node.host, port, hello.clone()).await.ok()?;
            writer.send(&news).ok()?;
            // The node ends the connection when it has heard.
            reader.next::<NodeToNode>().await.ok()
        };
        if let Ok(Some(_)) = timeout(TRY_MAX, told).await {
            tracing::info!(node_id = %node.node_id, "node is told where the head is");
            return;
        }
        sleep(PAUSE).await;
    }
    tracing::warn!(node_id = %node.node_id, host = node.host, "node cannot be told where the head is");
}
