//! A document as the checks see it: its links, headings, code and list items, each with its line.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A text and the line on which it begins, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) line: usize,
    pub(crate) value: T,
}

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code {
    /// What stands behind the fence; empty for an indented block.
    pub(crate) language: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) level: HeadingLevel,
    pub(crate) text: String,
}

/// What a document consists of, as far as it is checked.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) links: Vec<At<String>>,
    pub(crate) headings: Vec<At<Heading>>,
    pub(crate) blocks: Vec<At<Code>>,
    pub(crate) inline: Vec<At<String>>,
    /// The inline code of each item of a list.
    pub(crate) items: Vec<At<Vec<String>>>,
}

impl Document {
    pub(crate) fn parse(text: &str) -> Self {
        let line_of = |range: &Range<usize>| text[..range.start].matches('\n').count() + 1;
        let mut document = Self::default();
        let mut heading: Option<At<Heading>> = None;
        let mut block: Option<At<Code>> = None;
        let mut items: Vec<At<Vec<String>>> = Vec::new();
        let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
        for (event, range) in events {
            let line = line_of(&range);
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(At { line, value: dest_url.into_string() });
                }
                Event::Start(Tag::Heading { level, .. }) => {
                    heading = Some(At { line, value: Heading { level, text: String::new() } });
                }
                Event::End(TagEnd::Heading(_)) => document.headings.extend(heading.take()),
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(language) => language.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    block = Some(At { line, value: Code { language, text: String::new() } });
                }
                Event::End(TagEnd::CodeBlock) => document.blocks.extend(block.take()),
                Event::Start(Tag::Item) => items.push(At { line, value: Vec::new() }),
                Event::End(TagEnd::Item) => document.items.extend(items.pop()),
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.value.text.push_str(&text);
                    } else if let Some(heading) = &mut heading {
                        heading.value.text.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.value.text.push_str(&code);
                    }
                    if let Some(item) = items.last_mut() {
                        item.value.push(code.to_string());
                    }
                    document.inline.push(At { line, value: code.into_string() });
                }
                _ => {}
            }
        }
        document
    }

    /// The names by which a link can point at a heading, as forges make them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for heading in &self.headings {
            let base = anchor(&heading.value.text);
            let mut name = base.clone();
            let mut repeat = 0;
            while anchors.contains(&name) {
                repeat += 1;
                name = format!("{base}-{repeat}");
            }
            anchors.push(name);
        }
        anchors
    }
}

fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_headings_code_and_items_with_their_lines() {
        let document = Document::parse(
            "# One `two`, three!\n\n[a](b.md#c)\n\n- `x.rs`: `y`\n\n```sh\n$ ls\n```\n\n    indented\n",
        );
        assert_eq!(document.links, [At { line: 3, value: "b.md#c".to_owned() }]);
        assert_eq!(document.anchors(), ["one-two-three"]);
        assert_eq!(document.items, [At { line: 5, value: vec!["x.rs".into(), "y".into()] }]);
        let blocks: Vec<_> = document.blocks.iter().map(|b| (b.line, &*b.value.text)).collect();
        assert_eq!(blocks, [(7, "$ ls\n"), (11, "indented\n")]);
    }

    #[test]
    fn headings_of_the_same_name_are_numbered() {
        assert_eq!(Document::parse("# a\n# a\n# a\n").anchors(), ["a", "a-1", "a-2"]);
    }
}
