/** One of the things that a chart shows over time. */
export type Series<Name extends string = string> = {
  readonly name: Name;
  /** As the page says it. */
  readonly title: string;
  readonly colour: string;
};
