//! Tests the refusals before the disk is touched.

use super::*;
use crate::engines::vim::order::tests::of;

fn install(text: &str) -> Order {
    of(&serde_json::from_str(&format!("{{{}}}", text.trim_start_matches(','))).unwrap())
}

#[test]
fn arguments_that_would_be_mangled_are_refused() {
    for good in [
        "",
        r#","append_kargs":["a=b","quiet"],"console":["ttyS0,115200n8"],"platform":"metal""#,
        r#","firstboot_args":"rd.neednet=1 ip=dhcp","save_partindex":["5","7-","-3","1,2-4"]"#,
    ] {
        assert_eq!(arguments(&install(good)), Ok(()), "{good}");
    }
    for bad in [
        r#","append_kargs":["a b"]"#,
        r#","append_kargs":[""]"#,
        r#","append_kargs":["a\nb"]"#,
        r#","append_kargs":["--insecure"]"#,
        r#","append_kargs":["a=\"b","c=1"]"#,
        r#","delete_kargs":["\"a=\"b\""]"#,
        r#","delete_kargs":["a\u0000"]"#,
        r#","console":["ttyS0 x"]"#,
        r#","platform":"me tal""#,
        r#","platform":"""#,
        r#","firstboot_args":"a'b""#,
        r#","save_partindex":["x"]"#,
        r#","save_partindex":["1-2-3"]"#,
        r#","save_partlabel":[""]"#,
    ] {
        assert!(arguments(&install(bad)).is_err(), "{bad}");
    }
    assert_eq!(arguments(&install(r#","append_kargs":["a=\"b\""]"#)), Ok(()));
    let open = arguments(&install(r#","append_kargs":["a=\"b"]"#)).unwrap_err();
    assert!(open.to_string().contains("every double quote to be closed"), "{open}");
    let many = format!(r#","append_kargs":[{}"a"]"#, r#""aaaaaaaaaaaaaaaaaaa","#.repeat(200));
    assert!(arguments(&install(&many)).is_err());
}

#[test]
fn too_little_available_memory_is_refused_with_what_was_found_and_expected() {
    assert_eq!(memory(Some(MIN_AVAILABLE_BYTES)), Ok(None));
    let failure = memory(Some(MIN_AVAILABLE_BYTES - 1)).unwrap_err();
    assert_eq!(failure.code, Code::MemoryLow);
    assert_eq!(
        failure.message.to_string(),
        "255 MiB of memory are available, expected at least 256 MiB"
    );
    assert!(memory(None).unwrap().is_some_and(|warning| warning.contains("not checked")));
}
