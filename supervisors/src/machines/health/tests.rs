use super::*;

const SECOND: Duration = Duration::from_secs(1);
const NOTHING: Duration = Duration::ZERO;
const POLICY: RestartPolicy = RestartPolicy {
    failures: 5,
    backoff: Backoff { first: SECOND, longest: Duration::from_secs(60) },
    healthy: Duration::from_secs(60),
};

/// A client that asks again every 100 ms, for ten minutes of a virtual clock. What it starts ends in this way, so much
/// later. The starts, in milliseconds.
fn storm(health: &mut Health, lives: Duration, end: impl Fn(Duration) -> Input) -> Vec<u64> {
    let (mut starts, mut ends) = (Vec::new(), None);
    for now in (0..600_000).step_by(100).map(Millis) {
        if ends.take_if(|at| *at <= now).is_some() {
            health.tell(end(lives), &POLICY, now, 0.0);
        }
        if ends.is_none() && health.ask(&POLICY, now) == Permission::Granted {
            starts.push(now.0);
            ends = Some(now + lives);
        }
    }
    starts
}

fn pauses(starts: &[u64]) -> Vec<u64> {
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn broken(failures: u32) -> Health {
    let mut health = Health::default();
    (0..failures).for_each(|_| health.tell(Input::NotStarted, &POLICY, Millis(0), 0.0));
    health
}

#[test]
fn case_j1_a_crash_loop_has_an_exact_count_of_starts_and_exact_pauses() {
    let starts = storm(&mut Health::default(), Duration::from_millis(100), |age| Input::Ended { age });
    let paused = [100, 100, 100, 100, 1100, 2100, 4100, 8100, 16_100, 32_100, 60_100];
    let expected: Vec<u64> = paused.into_iter().chain(std::iter::repeat_n(60_100, 7)).collect();
    assert_eq!(pauses(&starts), expected, "five at once, then doubling pauses up to the longest");
}

#[test]
fn case_j1_the_count_and_the_pause_outlive_the_process_that_knew_them() {
    let health = broken(7);
    let text = serde_json::to_string(&health.standing()).expect("JSON");
    let mut later = Health::restored(serde_json::from_str(&text).expect("JSON"), Millis(500));
    let refused = Permission::Broken { failures: 5, retry: Duration::from_millis(500) };
    assert_eq!(later.ask(&POLICY, Millis(500)), refused);
    assert_eq!(later.ask(&POLICY, Millis(1000)), Permission::Granted);
    later.tell(Input::NotStarted, &POLICY, Millis(1000), 0.0);
    let doubled = Permission::Broken { failures: 6, retry: 2 * SECOND };
    assert_eq!(later.ask(&POLICY, Millis(1000)), doubled, "the next pause is the next one, and not the first again");
}

#[test]
fn case_j2_an_exit_a_second_after_each_good_start_exceeds_the_intensity() {
    let starts = storm(&mut Health::default(), SECOND, |age| Input::Ended { age });
    assert_eq!(pauses(&starts)[..6], [1000, 1000, 1000, 1000, 2000, 3000]);
    assert_eq!(starts.len(), 19, "in ten minutes");
}

#[test]
fn case_j2_a_healthy_while_or_work_sets_the_count_back() {
    let healthy = storm(&mut Health::default(), POLICY.healthy, |age| Input::Ended { age });
    assert_eq!(pauses(&healthy), vec![60_000; 9], "each of them was healthy: nothing is counted but the last");
    let mut health = broken(4);
    health.tell(Input::Worked { age: SECOND }, &POLICY, Millis(2000), 0.0);
    assert_eq!(health, Health::default());
}

#[test]
fn case_j3_who_was_let_through_to_see_is_no_intent_of_the_next_process() {
    let mut health = broken(5);
    assert_eq!(health.ask(&POLICY, Millis(1000)), Permission::Granted);
    assert!(matches!(health.ask(&POLICY, Millis(1001)), Permission::Broken { .. }));
    let mut next = Health::restored(health.standing(), Millis(1002));
    assert_eq!(next.ask(&POLICY, Millis(1002)), Permission::Granted, "it asks for itself");
    let nonsense = Standing { failures: 5, until: Some(Millis(u64::MAX)) };
    assert_eq!(Health::restored(nonsense, Millis(1002)).ask(&POLICY, Millis(1002)), Permission::Granted);
}

#[test]
fn case_j3_what_ended_at_its_providers_limit_waits_for_its_end_and_is_not_counted() {
    let after = 90 * SECOND;
    let mut health = broken(4);
    let starts = storm(&mut health, Duration::from_millis(100), |_| Input::Limited { after });
    assert_eq!(pauses(&starts), vec![90_100; 6]);
    assert_eq!(health.standing().failures, 0);
}

#[test]
fn case_j6_after_a_pause_one_of_a_hundred_is_let_through() {
    for end in [Input::Worked { age: SECOND }, Input::Ended { age: SECOND }, Input::Unused { age: NOTHING }] {
        let mut health = broken(5);
        let granted =
            |health: &mut Health, at| (0..100).filter(|_| health.ask(&POLICY, at) == Permission::Granted).count();
        assert_eq!(granted(&mut health, Millis(1500)), 1);
        health.tell(end, &POLICY, Millis(2500), 0.0);
        let expected = match end {
            Input::Worked { .. } => 100,
            Input::Unused { .. } => 1,
            _ => 0,
        };
        assert_eq!(granted(&mut health, Millis(2500)), expected, "{end:?}");
    }
}

#[test]
fn case_j6_the_pauses_of_many_are_spread() {
    let until = |jitter: f64| {
        let mut health = broken(4);
        health.tell(Input::NotStarted, &POLICY, Millis(0), jitter);
        health.standing().until.expect("shut").0
    };
    let times: std::collections::BTreeSet<u64> = (0..100).map(|n| until(f64::from(n) / 100.0)).collect();
    assert_eq!((times.len(), times.first(), times.last()), (100, Some(&505), Some(&1000)));
}

#[test]
fn case_j14_terminals_that_cannot_be_had_are_not_asked_for_in_a_loop() {
    let starts = storm(&mut Health::default(), NOTHING, |_| Input::NotStarted);
    assert_eq!(starts.len(), 19, "in ten minutes, of six thousand who asked");
}

/// What is told while it is left alone, or of a runtime older than the one that was let through, changes nothing.
#[test]
fn only_the_one_that_was_let_through_tells_whether_others_may_follow() {
    let old = 10 * SECOND;
    let of_old = [Input::Worked { age: old }, Input::Ended { age: old }, Input::Unused { age: old }];
    for input in of_old.into_iter().chain([Input::NotStarted, Input::Unused { age: NOTHING }]) {
        let mut shut = broken(5);
        shut.tell(input, &POLICY, Millis(500), 0.0);
        assert_eq!(shut, broken(5), "{input:?}");
    }
    let mut trial = broken(5);
    trial.ask(&POLICY, Millis(5000));
    let before = trial.clone();
    for input in of_old {
        trial.tell(input, &POLICY, Millis(6000), 0.0);
        assert_eq!(trial, before, "{input:?}");
    }
    trial.tell(Input::Worked { age: SECOND + TICK }, &POLICY, Millis(6000), 0.0);
    assert_eq!(trial, Health::default());
}

#[test]
fn one_that_has_been_there_for_a_healthy_while_lets_the_others_follow() {
    let mut health = broken(5);
    health.ask(&POLICY, Millis(1000));
    assert!(matches!(health.ask(&POLICY, Millis(60_999)), Permission::Broken { failures: 5, .. }));
    assert_eq!(health.ask(&POLICY, Millis(61_000)), Permission::Granted);
    assert_eq!(health, Health::default());
}

#[test]
fn none_is_borne_where_none_may_be() {
    let none = RestartPolicy { failures: 1, ..POLICY };
    let mut health = Health::default();
    health.tell(Input::Ended { age: SECOND }, &none, Millis(0), 0.0);
    assert_eq!(health.ask(&none, Millis(0)), Permission::Broken { failures: 1, retry: SECOND });
}
