//! What fasthttp can only ask for in its documentation, the compiler enforces: nothing outlives its handler.

#[test]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
