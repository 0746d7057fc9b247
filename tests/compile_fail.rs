//! What fasthttp can only ask for in its documentation, the compiler enforces: nothing outlives its handler.

#[test]
fn what_must_not_compile_does_not() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/compile_fail/*.rs");
    tests.pass("tests/compile_fail/good/*.rs");
}
