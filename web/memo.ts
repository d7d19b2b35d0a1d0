/** Preact's own `memo` is in its React layer, which the page does not load. */
import { Component, type ComponentChild, type FunctionComponent, h } from "preact";

export function memo<P extends object>(draw: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const [was, is] = [this.props as Record<string, unknown>, next as Record<string, unknown>];
      return Object.keys({ ...was, ...is }).some((name) => was[name] !== is[name]);
    }
    override render(): ComponentChild {
      return h(draw, this.props as P);
    }
  }
  return (props) => h(Memo, props);
}
