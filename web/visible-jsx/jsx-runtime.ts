import type { ElementType, Key, ReactElement } from "react";
import { jsx as reactJsx, jsxs as reactJsxs } from "react/jsx-runtime";
import { visibleProps } from "./visible-props.ts";

export { Fragment } from "react/jsx-runtime";
export type { JSX } from "react/jsx-runtime";

/** What the compiler makes of each element of the dashboard: React's own, with `visibleProps`. */
export function jsx(type: ElementType, props: Readonly<Record<string, unknown>>, key?: Key): ReactElement {
  return reactJsx(type, visibleProps(type, props), key);
}

/** The same for an element with several children. */
export function jsxs(type: ElementType, props: Readonly<Record<string, unknown>>, key?: Key): ReactElement {
  return reactJsxs(type, visibleProps(type, props), key);
}
