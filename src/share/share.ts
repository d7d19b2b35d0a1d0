/**
 * The door of `share`: a run for other people, as Markdown, as an HTML page or as a terminal recording, and the player
 * of recordings. Texts from the agent are inert in every form.
 */
export { asciicastOf } from "./asciicast.ts";
export { htmlOf } from "./html.ts";
export { linesPlayable, type TimedText } from "./lines-playable.ts";
export { markdownOf } from "./markdown.ts";
export { partsOf, type SharedAttempt, type SharedPart } from "./parts.ts";
export { MAX_SPEED, MIN_SPEED } from "./playback.ts";
export { play, type Playable } from "./player.ts";
export { recordingFacts } from "./recording.ts";
export { screenPlayable, sizeText } from "./screen-playable.ts";
