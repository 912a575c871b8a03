//! Events of clients: what they say, from their registration to their end.

use helio_proto::cluster::{ClientGone, FlushJobLogs, JobLogsFlushed};
use helio_proto::control::{Failure, FailureKind, JobInfo, StartJob};
use helio_proto::node::{ClientToNode, ControlCall, LogsFlushed, Register, Registered};
use helio_types::{DeathCause, DeathKind, JobId, WorkerAddress, WorkerId};

use super::Node;
use crate::clients::{Client, Kind};
use crate::context::Violation;
use crate::event::{Action, Conn};

impl Node {
    pub(super) fn on_client_said(&mut self, conn: Conn, message: ClientToNode) {
        match self.clients.may_say(conn, &message) {
            Ok(true) => {}
            Ok(false) => return,
            Err(Violation(why)) => return self.violation(conn, why),
        }
        match message {
            ClientToNode::Register(register) => self.on_register(conn, register),
            ClientToNode::RequestLease(request) => self.on_request_lease(conn, request),
            ClientToNode::CancelLease(cancel) => self.on_cancel_lease(conn, cancel.request_id),
            ClientToNode::ReturnLease(lease) => self.on_return_lease(conn, &lease),
            ClientToNode::Blocked(_) => self.on_blocked(conn, true),
            ClientToNode::Unblocked(_) => self.on_blocked(conn, false),
            ClientToNode::AdmitArguments(admit) => {
                let admitted = self.arguments.on_request(conn, admit, &mut self.ctx);
                self.close_on_violation(conn, admitted);
            }
            ClientToNode::ReleaseArguments(release) => {
                self.arguments.on_release(conn, &release, &mut self.ctx)
            }
            ClientToNode::CreateObject(create) => {
                let owner = self.owner_to_be(conn, &create);
                self.with_store_for(conn, |store, env| store.on_create(conn, create, owner, env))
            }
            ClientToNode::SealObject(seal) => {
                self.with_store_for(conn, |store, env| store.on_seal(conn, seal.object_id, env))
            }
            ClientToNode::AbortObject(abort) => {
                self.with_store(|store, env| store.on_abort(conn, abort.object_id, env))
            }
            ClientToNode::FetchObject(fetch) => {
                self.with_store_for(conn, |store, env| store.on_fetch(conn, fetch, env))
            }
            ClientToNode::CancelFetch(cancel) => {
                self.with_store(|store, env| store.on_cancel_fetch(conn, cancel.request_id, env))
            }
            ClientToNode::ReleaseObject(release) => {
                self.with_store_for(conn, |store, env| store.on_release(conn, &release, env))
            }
            ClientToNode::FreeObject(free) => self.on_free_object(free),
            ClientToNode::KeepObject(keep) => {
                self.with_store(|store, env| store.on_keep_object(keep, env))
            }
            ClientToNode::Control(call) => self.on_control_call(conn, call),
            ClientToNode::Liveness(question) => self.on_liveness_question(conn, &question),
            ClientToNode::FlushLogs(flush) => self.on_flush_logs(conn, flush.request_id),
            ClientToNode::ActorReady(ready) => self.on_actor_ready(conn, ready),
            ClientToNode::Leaving(leaving) => self.on_leaving(conn, leaving),
            ClientToNode::Stays(_) => self.on_stays(conn),
            ClientToNode::StopNode(stop) => self.on_stop_node(conn, stop.reason),
            ClientToNode::Why(why) => self.on_why(conn, &why),
            ClientToNode::LastWords(words) => self.on_last_words(conn, words),
            ClientToNode::Expect(expect) => self.on_expect(conn, expect),
            ClientToNode::Inspect(inspect) => self.on_inspect(conn, &inspect),
            ClientToNode::Answered(answered) => {
                self.inspections.on_client_answer(conn, answered, &mut self.ctx)
            }
            ClientToNode::Unknown => {}
        }
    }

    /// Ends the connection of a client that broke the protocol.
    pub(super) fn violation(&mut self, conn: Conn, why: &str) {
        self.clients.mark_closing(conn);
        self.ctx.push(Action::Close { conn, why: why.to_owned() });
    }

    /// Ends the connection of a client that broke the protocol, if a sub-machine found that it did.
    pub(super) fn close_on_violation(&mut self, conn: Conn, outcome: Result<(), Violation>) {
        if let Err(Violation(why)) = outcome {
            self.violation(conn, why);
        }
    }

    fn on_register(&mut self, conn: Conn, register: Register) {
        let kind = match self.clients.kind_of(conn, &register) {
            Ok(kind) => kind,
            Err(Violation(why)) => return self.violation(conn, why),
        };
        let worker_id =
            if register.worker_id.is_nil() { self.ctx.new_worker_id() } else { register.worker_id };
        if let Err(Violation(why)) = self.clients.check_id(kind, worker_id) {
            return self.violation(conn, why);
        }
        let job_id = match kind {
            Kind::Worker => match self.pool.expects(worker_id) {
                // Its job is the one that it was started for: what a worker says of itself does not decide that.
                Some(job_id) => job_id,
                None => return self.refuse_worker(conn),
            },
            _ => JobId::NIL,
        };
        self.clients.register(conn, kind, worker_id, job_id, register);
        match kind {
            Kind::DriverStarting => self.start_job(conn),
            Kind::Worker => self.on_worker_registered(conn, worker_id),
            _ => self.send_registered(conn, String::new()),
        }
    }

    /// The worker was given up on, or is none of ours.
    fn refuse_worker(&mut self, conn: Conn) {
        let failure =
            Failure::new(FailureKind::System, "this worker is not expected here (any more)");
        self.ctx.send(conn, Registered { failed: true, failure, ..Registered::default() });
        self.ctx.push(Action::Close { conn, why: String::new() });
    }

    fn start_job(&mut self, conn: Conn) {
        let Some(client) = self.clients.get(conn) else { return };
        let driver = client.worker_id();
        let Register { entrypoint, namespace, pid, owns_cluster, .. } =
            client.registration().clone();
        // The cluster ends with the driver that started it, and with no other that says so.
        if owns_cluster && self.ctx.setup().has_owner {
            self.clients.set_owner(conn);
        }
        let node_id = self.ctx.node_id();
        let job = StartJob { driver, node_id, entrypoint, namespace, pid };
        self.control.start_job(driver, job, &mut self.ctx);
    }

    /// The control service has given the driver's job its number, or refused it.
    pub(super) fn on_job_started(&mut self, driver: WorkerId, job: Result<JobInfo, Failure>) {
        let Some(conn) = self.clients.local(driver) else { return };
        // Its job may have been asked for twice, over a connection that broke in between.
        let Some(client) = self.clients.get(conn).filter(|one| one.kind() == Kind::DriverStarting)
        else {
            return;
        };
        match job {
            Ok(job) => {
                self.jobs.add_driver(job.job_id, conn, client.registration().log_to_driver);
                self.clients.on_job_started(conn, job.job_id);
                self.send_registered(conn, job.namespace);
            }
            Err(failure) => {
                self.ctx.send(conn, Registered { failed: true, failure, ..Registered::default() });
                self.ctx.push(Action::Close { conn, why: String::new() });
            }
        }
    }

    pub(super) fn send_registered(&mut self, conn: Conn, namespace: String) {
        let Some(client) = self.clients.get(conn) else { return };
        let uses_store = matches!(client.kind(), Kind::Driver | Kind::Worker);
        let registered = Registered {
            node_id: self.ctx.setup().address.node_id,
            job_id: client.job_id(),
            host: self.ctx.setup().address.host.clone(),
            port: self.ctx.setup().address.port,
            session_dir: self.ctx.setup().session_dir.clone(),
            session_name: self.ctx.setup().session_name.clone(),
            // Observers and remote drivers map no memory of this machine.
            arena_size: if uses_store { self.ctx.setup().store_size } else { 0 },
            overflow_path: self.ctx.setup().overflow_path.clone(),
            control_address: self.ctx.setup().control_address.clone(),
            namespace,
            labels: self.ctx.setup().labels.clone(),
            total: self.ctx.setup().total.clone(),
            temp_dir: self.ctx.setup().temp_dir.clone(),
            ..Registered::default()
        };
        self.ctx.send(conn, registered);
    }

    /// Returns the address at which a registered client takes calls: behind the node's port.
    pub(super) fn address_of(&self, conn: Conn) -> WorkerAddress {
        let client = self.clients.get(conn);
        WorkerAddress {
            worker_id: client.map_or(WorkerId::NIL, Client::worker_id),
            node_id: self.ctx.setup().address.node_id,
            host: self.ctx.setup().address.host.clone(),
            port: self.ctx.setup().address.port,
        }
    }

    /// Takes back all that the client had. Workers that run its tasks end, too.
    pub(super) fn on_client_closed(&mut self, conn: Conn) {
        let Some(client) = self.clients.on_client_closed(conn) else { return };
        self.reclaim_leases(conn, &client);
        self.reclaim_objects(conn, &client);
        self.arguments.on_client_gone(conn, &mut self.ctx);
        self.liveness.on_client_gone(conn);
        self.inspections.on_client_gone(conn, &mut self.ctx);
        self.control.on_client_gone(client.worker_id());
        match client.kind() {
            Kind::Worker => self.on_worker_disconnected(client.worker_id()),
            Kind::Driver | Kind::DriverStarting => self.on_driver_gone(conn, &client),
            Kind::New | Kind::Remote | Kind::Observer => {}
        }
    }

    fn on_driver_gone(&mut self, conn: Conn, client: &Client) {
        let pid = client.pid();
        let mut cause = DeathCause::new(
            DeathKind::Exited,
            format!("The driver process (pid {pid}) has ended."),
        );
        cause.pid = pid;
        self.remember_exit(client.worker_id(), cause.clone(), true, client.life());
        // Before the end of the job: what it owned elsewhere ends with this cause.
        self.ctx.tell_control(ClientGone { worker_id: client.worker_id(), is_driver: true, cause });
        if client.kind() == Kind::Driver {
            self.end_job(client.job_id());
        }
        if self.clients.is_owner(conn) {
            self.ctx.push(Action::ShutDown {
                reason: "the driver that started the cluster has ended".to_owned(),
            });
        }
    }

    pub(super) fn on_owner_late(&mut self) {
        if !self.clients.has_owner() {
            self.ctx.push(Action::ShutDown {
                reason: "the driver that started the cluster never came".to_owned(),
            });
        }
    }

    /// The drivers and workers that live here, for a control service that has to learn of them again.
    #[must_use]
    pub fn clients(&self) -> Vec<WorkerId> {
        let lives = |client: &Client| {
            matches!(client.kind(), Kind::DriverStarting | Kind::Driver | Kind::Worker)
        };
        let living = self.clients.iter().filter(|(_, client)| lives(client));
        living.map(|(_, client)| client.worker_id()).collect()
    }

    fn on_flush_logs(&mut self, conn: Conn, request_id: u64) {
        let Some(client) = self.clients.get(conn) else { return };
        let (job_id, driver) = (client.job_id(), client.worker_id());
        let workers = self.pool.of_job(job_id);
        // Workers of the job may have printed elsewhere, which only the control service can ask about.
        let then = if self.control.is_connected() && !self.cluster.others_alive().is_empty() {
            let node_id = self.ctx.setup().address.node_id;
            let flush = FlushJobLogs { job_id, driver, request_id, node_id };
            Action::Control(flush.into())
        } else {
            Action::Send { conn, message: LogsFlushed { request_id }.into() }
        };
        self.ctx.push(Action::FlushLogs { workers, then: Box::new(then) });
    }

    /// The driver of another node wants what its workers here have printed.
    pub(super) fn on_flush_job_logs(&mut self, flush: FlushJobLogs) {
        let workers = self.pool.of_job(flush.job_id);
        let FlushJobLogs { driver, request_id, node_id, .. } = flush;
        let flushed = JobLogsFlushed { driver, request_id, node_id };
        let then = Box::new(Action::Control(flushed.into()));
        self.ctx.push(Action::FlushLogs { workers, then });
    }

    /// A client that wants to stop the node. On the head the whole cluster ends, in the order that the
    /// control service chooses.
    fn on_stop_node(&mut self, conn: Conn, reason: String) {
        if self.ctx.setup().is_head {
            let Some(client) = self.clients.get(conn) else { return };
            self.control.stop_cluster(client.worker_id(), reason, &mut self.ctx);
        } else {
            self.ctx.push(Action::ShutDown { reason });
        }
    }

    fn on_control_call(&mut self, conn: Conn, call: ControlCall) {
        let Some(client) = self.clients.get(conn) else { return };
        let called = self.control.on_call(conn, client.worker_id(), call, &mut self.ctx);
        self.close_on_violation(conn, called);
    }
}
