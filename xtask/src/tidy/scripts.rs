//! The imports of a TypeScript file, by its tokens: texts, words and marks, without comments and without what is
//! inside of texts.

/// An import that is left after the build. Those of types alone are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    /// The path as it is written.
    pub(super) from: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

impl Token {
    fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(it) if it == word)
    }

    fn is_mark(&self, mark: char) -> bool {
        *self == Token::Mark(mark)
    }
}

/// The imports of a file.
pub(super) fn imports(text: &str) -> Vec<Import> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let rest = &tokens[at..];
        let is_member = at > 0 && tokens[at - 1].1.is_mark('.');
        if is_member {
            continue;
        }
        let from = match rest {
            [(_, word), (line, Token::Text(path)), ..] if word.is_word("import") => {
                Some((*line, path))
            }
            [(_, word), (_, mark), (line, Token::Text(path)), ..]
                if word.is_word("import") && mark.is_mark('(') =>
            {
                Some((*line, path))
            }
            [(_, word), rest @ ..] if word.is_word("import") => names(rest, false),
            [(_, word), rest @ ..] if word.is_word("export") => names(rest, true),
            _ => None,
        };
        found.extend(from.map(|(line, path)| Import {
            line,
            from: path.clone(),
        }));
    }
    found
}

/// The path of an import or an export of names, if it is not of types alone.
fn names(rest: &[(usize, Token)], is_export: bool) -> Option<(usize, &String)> {
    let (_, first) = rest.first()?;
    let begins = |it: &Token| it.is_mark('{') || it.is_mark('*');
    if first.is_word("type") {
        let (_, second) = rest.get(1)?;
        // A name may be `type`, too.
        if !second.is_word("from") && !second.is_mark(',') {
            return None;
        }
    }
    if is_export && !begins(first) {
        return None;
    }
    let is_end = |it: &Token| it.is_mark(';') || it.is_mark('(') || it.is_mark('=');
    let mut pairs = rest.windows(2).take_while(|pair| !is_end(&pair[0].1));
    pairs.find_map(|pair| match pair {
        [(_, word), (line, Token::Text(path))] if word.is_word("from") => Some((*line, path)),
        _ => None,
    })
}

/// The tokens of a file, each with the line on which it begins.
fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut reader = Reader {
        rest: text,
        line: 1,
        tokens: Vec::new(),
    };
    reader.read(false);
    reader.tokens
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<(usize, Token)>,
}

impl Reader<'_> {
    /// Reads to the end; in an expression of a template, to the brace that ends it.
    fn read(&mut self, is_in_template: bool) {
        let mut deep = 0;
        while let Some(next) = self.rest.chars().next() {
            match next {
                '/' if self.rest.starts_with("//") => {
                    let length = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.skip(length);
                }
                '/' if self.rest.starts_with("/*") => {
                    let length = self.rest.find("*/").map_or(self.rest.len(), |it| it + 2);
                    self.skip(length);
                }
                '/' if self.is_before_expression() => self.expression_of_letters(),
                '\'' | '"' => self.quoted(next),
                '`' => self.template(),
                '}' if is_in_template && deep == 0 => {
                    self.skip(1);
                    return;
                }
                it if is_letter(it) => {
                    let end = self.rest.find(|it| !is_letter(it));
                    let word = self.rest[..end.unwrap_or(self.rest.len())].to_owned();
                    self.skip(word.len());
                    self.tokens.push((self.line, Token::Word(word)));
                }
                it => {
                    match it {
                        '{' => deep += 1,
                        '}' => deep -= 1,
                        _ => {}
                    }
                    if !it.is_whitespace() {
                        self.tokens.push((self.line, Token::Mark(it)));
                    }
                    self.skip(it.len_utf8());
                }
            }
        }
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }

    /// Whether a value begins here, so that `/` is no division.
    fn is_before_expression(&self) -> bool {
        match self.tokens.last() {
            None => true,
            Some((_, Token::Mark(it))) => ![')', ']', '}'].contains(it),
            Some((_, Token::Word(it))) => {
                ["return", "typeof", "case", "await"].contains(&it.as_str())
            }
            Some((_, Token::Text(_))) => false,
        }
    }

    /// A regular expression.
    fn expression_of_letters(&mut self) {
        let (mut is_escaped, mut is_class) = (false, false);
        let end = self.rest.char_indices().skip(1).find(|(_, it)| {
            let ends = !is_escaped && !is_class && *it == '/' || *it == '\n';
            match it {
                '[' if !is_escaped => is_class = true,
                ']' if !is_escaped => is_class = false,
                _ => {}
            }
            is_escaped = !is_escaped && *it == '\\';
            ends
        });
        self.tokens.push((self.line, Token::Text(String::new())));
        self.skip(end.map_or(self.rest.len(), |(at, _)| at + 1));
    }

    fn quoted(&mut self, quote: char) {
        let line = self.line;
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, it)| {
            let ends = !is_escaped && *it == quote;
            is_escaped = !is_escaped && *it == '\\';
            ends
        });
        let end = end.map_or(self.rest.len(), |(at, _)| at);
        let text = self.rest[1..end].to_owned();
        self.skip((end + 1).min(self.rest.len()));
        self.tokens.push((line, Token::Text(text)));
    }

    /// A template: its own letters are one text, and what it computes is read as code.
    fn template(&mut self) {
        let line = self.line;
        let mut text = String::new();
        self.skip(1);
        while let Some(next) = self.rest.chars().next() {
            match next {
                '`' => {
                    self.skip(1);
                    break;
                }
                '\\' => {
                    let length = self.rest.chars().take(2).map(char::len_utf8).sum();
                    self.skip(length);
                }
                '$' if self.rest.starts_with("${") => {
                    self.skip(2);
                    self.read(true);
                }
                it => {
                    text.push(it);
                    self.skip(it.len_utf8());
                }
            }
        }
        self.tokens.push((line, Token::Text(text)));
    }
}

fn is_letter(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let found = imports(text).into_iter();
        found.map(|it| format!("{} {}", it.line, it.from)).collect()
    }

    #[test]
    fn each_form_of_an_import_is_found() {
        for text in [
            "import './a.js';",
            "import a from './a.js'",
            "import { a } from \"./a.js\";",
            "import * as a from './a.js';",
            "import a, { type B } from './a.js';",
            "import type from './a.js';",
            "export { a } from './a.js';",
            "export * from './a.js';",
            "export * as a from './a.js';",
            "const a = await import('./a.js');",
            "import(/* of it */ `./a.js`);",
            "import type { B } from './b.js';\nexport type { C } from './c.js';\nimport('./a.js');",
            "`${await import('./a.js')}`;",
            "const a = /[/'\"]/; import './a.js';",
            "const a = b / 2; import './a.js'; c / 2;",
        ] {
            let paths: Vec<String> = imports(text).into_iter().map(|it| it.from).collect();
            assert_eq!(paths, ["./a.js"], "{text}");
        }
        assert_eq!(found("import {\n  a,\n} from\n  './a.js';"), ["4 ./a.js"]);
        assert_eq!(found("import(\n  './a.js',\n);"), ["2 ./a.js"]);
    }

    #[test]
    fn other_texts_are_no_imports() {
        for text in [
            "import type { A } from './a.js';",
            "import type A from './a.js';",
            "export type { A } from './a.js';",
            "export type A = { from: './a.js' };",
            "export const from = './a.js';",
            "export { a };\nconst b = from('./a.js');",
            "// import './a.js';",
            "/* import './a.js'; */",
            "const a = \"import './a.js'\";",
            "const a = `import './a.js'`;",
            "import.meta.url;",
            "a.import('./a.js');",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
