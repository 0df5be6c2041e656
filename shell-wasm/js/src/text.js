// UTF-8 both ways. Written out because small hosts have no TextEncoder, and because that one hides lone surrogates.

import { TextError } from './errors.js';

/** The UTF-8 bytes of a string. Throws on a lone surrogate, with its byte offset: text is never changed silently. */
export function encodeUtf8(text) {
  const string = String(text);
  const bytes = new Uint8Array(string.length * 3);
  let length = 0;
  for (let at = 0; at < string.length; at++) {
    let point = string.charCodeAt(at);
    if (point >= 0xd800 && point <= 0xdfff) {
      const low = string.charCodeAt(at + 1);
      if (point > 0xdbff || !(low >= 0xdc00 && low <= 0xdfff)) {
        throw new TextError(3, { offset: length });
      }
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
      at++;
    }
    if (point < 0x80) {
      bytes[length++] = point;
    } else if (point < 0x800) {
      bytes[length++] = 0xc0 | (point >> 6);
      bytes[length++] = 0x80 | (point & 63);
    } else if (point < 0x10000) {
      bytes[length++] = 0xe0 | (point >> 12);
      bytes[length++] = 0x80 | ((point >> 6) & 63);
      bytes[length++] = 0x80 | (point & 63);
    } else {
      bytes[length++] = 0xf0 | (point >> 18);
      bytes[length++] = 0x80 | ((point >> 12) & 63);
      bytes[length++] = 0x80 | ((point >> 6) & 63);
      bytes[length++] = 0x80 | (point & 63);
    }
  }
  return bytes.subarray(0, length);
}

const SMALLEST = [0, 0, 0x80, 0x800, 0x10000];

/** The string of UTF-8 bytes; each ill-formed piece becomes one U+FFFD, as in the Encoding standard. */
export function decodeUtf8(bytes) {
  let text = '';
  let at = 0;
  while (at < bytes.length) {
    const first = bytes[at++];
    if (first < 0x80) {
      text += String.fromCharCode(first);
      continue;
    }
    const size = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc2 && first < 0xe0 ? 2 : 0;
    let point = first & (0x7f >> size);
    let taken = 1;
    while (taken < size && at < bytes.length && (bytes[at] & 0xc0) === 0x80) {
      const next = (point << 6) | (bytes[at] & 63);
      // The second byte already tells overlong forms, surrogates and what lies beyond U+10FFFF.
      const shift = 6 * (size - taken - 1);
      const least = next << shift;
      const most = least | ((1 << shift) - 1);
      if (most < SMALLEST[size] || (least >= 0xd800 && most <= 0xdfff) || least > 0x10ffff) break;
      point = next;
      taken++;
      at++;
    }
    text += size > 0 && taken === size ? String.fromCodePoint(point) : '\ufffd';
  }
  return text;
}
