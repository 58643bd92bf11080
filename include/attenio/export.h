// Visibility of the public symbols: the library is built with hidden visibility.
#ifndef ATTENIO_EXPORT_H_
#define ATTENIO_EXPORT_H_

#if defined(_WIN32) && defined(ATTENIO_SHARED_LIBRARY)
#ifdef ATTENIO_BUILDING
#define ATTENIO_API __declspec(dllexport)
#else
#define ATTENIO_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define ATTENIO_API __attribute__((visibility("default")))
#else
#define ATTENIO_API
#endif

#endif  // ATTENIO_EXPORT_H_
