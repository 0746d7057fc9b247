//! The compiler enforces a rule that fasthttp only documents: no view of a request outlives its handler.

#[test]
#[cfg_attr(
    any(feature = "websocket", not(feature = "json")),
    ignore = "the words of the compiler are compared with the default features only"
)]
fn what_must_not_compile_does_not() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
