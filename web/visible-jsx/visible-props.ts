import { Fragment } from "react";
import type { ReactNode } from "react";
import { jsx, jsxs } from "react/jsx-runtime";
import { partText, splitHidden, visibleText } from "../../src/model/visible-text.ts";

type Props = Readonly<Record<string, unknown>>;

/** Attributes that people read. */
const READ_ATTRIBUTES = [
  "title",
  "aria-label",
  "aria-description",
  "aria-valuetext",
  "placeholder",
  "alt",
  "label",
];
/** Elements that can contain nothing but text. */
const TEXT_ONLY: ReadonlySet<unknown> = new Set(["option", "title", "desc", "text", "tspan", "textarea"]);
/** More such characters in one text are shown without a box around them: a hostile text must not fill the page with elements. */
const MAX_BOXES = 20;
/** Letters that are written from right to left, by their blocks. */
const RIGHT_TO_LEFT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;
const RIGHT_TO_LEFT_EACH = new RegExp(RIGHT_TO_LEFT, "gu");
const ANY_LETTER = /\p{L}/u;

/**
 * An element's props as they may be shown. Characters that nobody would see, or that turn the text around, appear
 * as a box with their code. Right-to-left text in a line is isolated from its surroundings. A text whose line ends
 * count (`pre`, `whitespace-pre…`) keeps them, and its style sheet finds the direction of each line.
 */
export function visibleProps(type: unknown, props: Props): Props {
  // Components pass on what they are given; only what becomes an element is shown.
  if (typeof type === "function") return props;
  const changes: Record<string, unknown> = {};
  for (const name of READ_ATTRIBUTES) {
    const value = props[name];
    const shown = typeof value === "string" ? visibleText(value) : value;
    if (shown !== value) changes[name] = shown;
  }
  const children = props["children"];
  if (children !== undefined) {
    const shown = visibleChildren(children, TEXT_ONLY.has(type) ? visibleText : elementsFor(type, props));
    if (shown !== children) changes["children"] = shown;
  }
  return Object.keys(changes).length === 0 ? props : { ...props, ...changes };
}

type Show = (text: string) => ReactNode;

/** Strings are replaced at any depth of lists; what needs no change stays the same object. */
function visibleChildren(children: unknown, show: Show): unknown {
  if (typeof children === "string") return show(children);
  if (!Array.isArray(children)) return children;
  const shown = children.map((child: unknown, index) => {
    const one = visibleChildren(child, show);
    return typeof child === "string" && one !== child
      ? jsx(Fragment, { children: one as ReactNode }, index)
      : one;
  });
  return shown.some((child, index) => child !== children[index]) ? shown : children;
}

function elementsFor(type: unknown, { className }: Props): Show {
  const isLines = type === "pre" || (typeof className === "string" && className.includes("whitespace-pre"));
  return isLines ? (text) => boxed(text, "lines") : isolated;
}

/** A text in a line: right-to-left parts must not reorder what comes before and after them. */
function isolated(text: string): ReactNode {
  const first = text.search(RIGHT_TO_LEFT);
  if (first === -1) return boxed(text, "name");
  if (text.search(ANY_LETTER) >= first) return jsx("bdi", { children: boxed(text, "name") });
  // A sentence of ours with a name in it: the sentence keeps its direction.
  const end = Array.from(
    text.matchAll(RIGHT_TO_LEFT_EACH),
    ({ 0: letter, index }) => index + letter.length,
  ).at(-1);
  return jsxs(Fragment, {
    children: [
      boxed(text.slice(0, first), "name"),
      jsx("bdi", { children: boxed(text.slice(first, end), "name") }),
      boxed(text.slice(end), "name"),
    ],
  });
}

function boxed(text: string, kind: "name" | "lines"): ReactNode {
  const parts = splitHidden(text, kind);
  if (parts.length === 1 && typeof parts[0] === "string") return parts[0];
  const shown: ReactNode[] = [];
  let boxes = 0;
  for (const [index, part] of parts.entries()) {
    if (boxes === MAX_BOXES) {
      shown.push(parts.slice(index).map(partText).join(""));
      break;
    }
    if (typeof part === "string") {
      shown.push(part);
      continue;
    }
    boxes += 1;
    shown.push(jsx("span", { className: "hidden-character", title: part.code, children: part.shown }, index));
  }
  return jsxs(Fragment, { children: shown });
}
