//! Tells the linker what Node itself provides.

fn main() {
    napi_build::setup();
}
