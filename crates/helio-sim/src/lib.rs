//! Proof: whole clusters in one thread from one seed.
