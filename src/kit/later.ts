/**
 * A value that parts read which are made before the one that knows it: the port of a listener, for instance. `main.ts`
 * sets it. Reading it too early is a bug, and throws, unless there is a value to begin with.
 */
export class Later<Value> {
  readonly #name: string;
  #known: { readonly value: Value } | null;

  constructor(name: string, first?: Value) {
    this.#name = name;
    this.#known = first === undefined ? null : { value: first };
  }

  set(value: Value): void {
    this.#known = { value };
  }

  get value(): Value {
    if (this.#known === null) throw new Error(`${this.#name}: read before it was known`);
    return this.#known.value;
  }
}
