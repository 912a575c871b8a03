//! Rows of the state API, from those who know them.

use helio_proto::control::{ActorInfo, ControlResponse, ListActors, ListJobs, ListNodes, Nodes};
use helio_proto::group::ListGroups;
use helio_proto::inspect::{Inspected, Question, Topic};
use helio_report::{Resource, Row, rows};

use crate::Asker;

/// Rows, and how many of those asked did not answer in time.
#[derive(Debug, Default)]
pub struct Told {
    /// The rows, in the columns of the state API.
    pub rows: Vec<Row>,
    /// How many processes or nodes did not answer: their rows are missing.
    pub silent: u32,
}

impl Asker {
    /// The rows of a resource.
    ///
    /// # Errors
    /// A sentence for the user: the daemon or the control service does not answer.
    pub async fn rows(&self, resource: Resource) -> Result<Told, String> {
        let known = |rows| Told { rows, silent: 0 };
        Ok(match resource {
            Resource::Tasks => {
                let told = self.topic(Topic::Tasks).await?;
                let processes = self.topic(Topic::Workers).await?;
                let actors = self.actors().await?;
                let rows = rows::tasks(&told.answers, &processes.answers, &actors).collect();
                Told { rows, silent: told.silent }
            }
            Resource::Objects => {
                let told = self.topic(Topic::Objects).await?;
                Told { rows: rows::objects(&told.answers).collect(), silent: told.silent }
            }
            Resource::Workers => self.workers().await?,
            Resource::Envs => {
                let workers = self.workers().await?;
                Told { rows: rows::environments(&workers.rows), silent: workers.silent }
            }
            Resource::Events => {
                let workers = self.workers().await?;
                let nodes = rows::nodes(&self.nodes().await?.nodes);
                Told { rows: rows::events(&workers.rows, &nodes), silent: workers.silent }
            }
            Resource::Actors => known(rows::actors(&self.actors().await?)),
            Resource::Nodes => known(rows::nodes(&self.nodes().await?.nodes)),
            Resource::Groups => match self.ask(ListGroups {}).await? {
                ControlResponse::Groups(list) => known(rows::groups(&list.groups)),
                _ => return Err(unexpected()),
            },
            Resource::Jobs => match self.ask(ListJobs {}).await? {
                ControlResponse::Jobs(list) => known(rows::jobs(&list.jobs)),
                _ => return Err(unexpected()),
            },
        })
    }

    /// The nodes, and what waits for one.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub async fn nodes(&self) -> Result<Nodes, String> {
        match self.ask(ListNodes {}).await? {
            ControlResponse::Nodes(nodes) => Ok(nodes),
            _ => Err(unexpected()),
        }
    }

    async fn actors(&self) -> Result<Vec<ActorInfo>, String> {
        match self.ask(ListActors {}).await? {
            ControlResponse::Actors(list) => Ok(list.actors),
            _ => Err(unexpected()),
        }
    }

    async fn workers(&self) -> Result<Told, String> {
        let told = self.topic(Topic::Workers).await?;
        Ok(Told { rows: rows::workers(&told.answers), silent: told.silent })
    }

    async fn topic(&self, topic: Topic) -> Result<Inspected, String> {
        self.inspect(Question { topic, ..Question::default() }).await
    }
}

fn unexpected() -> String {
    "the control service gave an unexpected answer".to_owned()
}
