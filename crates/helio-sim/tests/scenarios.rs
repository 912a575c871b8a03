//! Each scenario with a name is a test.

use helio_sim::scenarios::SCENARIOS;

#[track_caller]
fn play(name: &str) {
    let one = SCENARIOS.iter().find(|one| one.name == name).expect("a scenario of that name");
    assert_eq!((one.play)(), Ok(()));
}

macro_rules! tests {
    ($($module:ident { $($name:ident)* })*) => {
        $($(#[test]
        fn $name() {
            play(stringify!($name));
        })*)*
    };
}

helio_sim::for_each_scenario!(tests);
