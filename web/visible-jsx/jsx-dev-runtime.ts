import type { ElementType, Key, ReactElement } from "react";
import { jsxDEV as reactJsxDev } from "react/jsx-dev-runtime";
import type { JSXSource } from "react/jsx-dev-runtime";
import { visibleProps } from "./visible-props.ts";

export { Fragment } from "react/jsx-dev-runtime";
export type { JSX } from "react/jsx-dev-runtime";

/** The same as `jsx` for Vite's development server, which also says where in the sources an element is. */
export function jsxDEV(
  type: ElementType,
  props: Readonly<Record<string, unknown>>,
  key: Key | undefined,
  isStatic: boolean,
  source?: JSXSource,
  self?: unknown,
): ReactElement {
  return reactJsxDev(type, visibleProps(type, props), key, isStatic, source, self);
}
