/** The door of `home`: the screens that show runs. Pure reducers and views; what they read and do comes from the caller. */
export type { HomeCommand } from "./actions.ts";
export type { HomeRow } from "./home-row.ts";
export { openHome } from "./home-screen.ts";
export { openPicker } from "./picker.ts";
export type { Exchange, PickRow } from "./pick-state.ts";
