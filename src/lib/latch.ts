/** Passes values to one listener. The first value from before the listener exists waits for it. */
export class Latch<T> {
  #listener: ((value: T) => void) | null = null;
  #early: { readonly value: T } | null = null;

  listen(listener: (value: T) => void): void {
    this.#listener = listener;
    if (this.#early !== null) listener(this.#early.value);
  }

  send(value: T): void {
    if (this.#listener === null) this.#early ??= { value };
    else this.#listener(value);
  }

  forget(): void {
    this.#listener = null;
  }
}
