// Package ndarray holds named arrays in memory, as files of all formats give and take them, and what their readers
// share: depths of images, errors that name shapes and near misses, and the check that an array fits into memory.
package ndarray
