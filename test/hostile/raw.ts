/**
 * What no output may have raw: C0 but tab and line feed, DEL, C1, bidirectional and other invisible controls, lone
 * surrogates. Written apart from the product, so that both would have to be wrong.
 */
export const RAW =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/u;
