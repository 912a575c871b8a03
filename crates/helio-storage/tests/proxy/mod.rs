//! A link that breaks where it is told to.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Default)]
struct State {
    is_cut: bool,
    /// Bytes that passed to the server and back.
    passed: [u64; 2],
    /// With so many the link breaks.
    until: Option<[u64; 2]>,
    open: Vec<TcpStream>,
    /// The number of connections, of the first ones, that pass nothing any more.
    hushed: usize,
    connections: usize,
}

impl State {
    fn cut(&mut self) {
        self.is_cut = true;
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// A link to that port of this machine.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let served = proxy.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                served.connect(stream.unwrap(), port);
            }
        });
        proxy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn connect(&self, near: TcpStream, port: u16) {
        let mut state = self.state();
        if state.is_cut {
            return;
        }
        let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
        state.connections += 1;
        let number = state.connections;
        for (direction, from, to) in [(0, &near, &far), (1, &far, &near)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let proxy = self.clone();
            std::thread::spawn(move || proxy.pass(number, direction, from, to));
        }
        state.open.extend([near, far]);
    }

    fn pass(&self, number: usize, direction: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let mut state = self.state();
            if state.is_cut {
                return;
            }
            if number <= state.hushed {
                continue;
            }
            let left =
                state.until.map_or(u64::MAX, |until| until[direction] - state.passed[direction]);
            let passed = left.min(length as u64);
            state.passed[direction] += passed;
            let is_passed = to.write_all(&buffer[..passed as usize]).is_ok();
            if passed < length as u64 || !is_passed {
                // The reader gets the bytes that have passed before the end of the connection.
                let _ = to.shutdown(Shutdown::Write);
                state.is_cut = true;
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Returns the numbers of bytes that passed to the server, and back.
    pub(crate) fn passed(&self) -> (u64, u64) {
        let state = self.state();
        (state.passed[0], state.passed[1])
    }

    /// The link breaks when so many bytes more have passed to the server, or back.
    pub(crate) fn cut_after(&self, said: u64, heard: u64) {
        let mut state = self.state();
        let until = |at: usize, more: u64| state.passed[at].saturating_add(more);
        state.until = Some([until(0, said), until(1, heard)]);
    }

    pub(crate) fn cut(&self) {
        self.state().cut();
    }

    /// The connections there are pass nothing from now on, and do not end.
    pub(crate) fn hush(&self) {
        let mut state = self.state();
        state.hushed = state.connections;
    }

    /// New connections pass.
    pub(crate) fn mend(&self) {
        let mut state = self.state();
        if state.is_cut {
            state.cut();
            (state.is_cut, state.until) = (false, None);
        }
    }
}
