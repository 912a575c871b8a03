//! The part that all calls of one function with one set of options share.

use helio_types::PlacementGroupId;

use crate::wire::{messages, numbers};

messages! {
    /// The shared part of calls, sent once a connection: a frame then names it by number.
    pub struct Template {
        1 kind: CallKind,
        /// For tasks and constructors: the serialized function or class. On a connection it travels in a
        /// frame of its own, since many templates may call one function.
        2 function: bytes::Bytes,
        /// Identifies `function`; equal ids are equal bytes.
        3 function_id: Vec<u8>,
        /// The function's, class's or method's name.
        4 name: String,
        /// Methods: the group it runs in; empty: the default one.
        5 concurrency_group: String,
        /// Number of tasks after which the worker ends; 0: no limit.
        6 max_calls: u32,
        /// The values come one by one.
        7 is_generator: bool,
        /// Names of the last arguments, which are passed by keyword.
        8 keywords: Vec<String>,
        /// For a generator: the number of unread items that the caller allows; 0: no bound.
        9 backpressure: u32,
        /// For the language front.
        10 front: FrontOptions,
        /// Methods: the actor runs calls side by side or was made to take them in any order, so a call
        /// whose arguments are not there yet does not hold back the caller's later ones.
        11 is_unordered: bool,
        /// Calls are not told to who lists calls (`enable_task_events=False`).
        12 is_unlisted: bool,
    }
    /// The options that a language front needs where the call runs. The machines do not read them.
    pub struct FrontOptions {
        /// `module.name` of the function.
        1 function_name: String,
        /// The module of a constructor's class.
        2 module: String,
        /// The placement group that the call runs in; nil: none.
        3 placement_group: PlacementGroupId,
        /// Whether calls that it makes go there too.
        4 capture_children: bool,
        /// [`RuntimeEnv::document`](crate::environment::RuntimeEnv::document); empty: the job's.
        5 runtime_env: String,
        /// The generator's items are put, and the list of them is the one return.
        6 is_dynamic: bool,
        /// Each value that the generator yields has so many items; 0: it is one.
        7 per_yield: u32,
        /// Every exception is retried.
        8 retries_all: bool,
        /// The exception classes that are retried, in the serialized form of the front; empty: none.
        9 retried: Vec<u8>,
    }
}

numbers! {
    /// The kind of code that a template calls.
    pub enum CallKind {
        /// A function.
        #[default]
        Task = 0,
        /// A method of the actor that lives in the process.
        Method = 1,
        /// A class, to become an actor.
        Constructor = 2,
    }
}
