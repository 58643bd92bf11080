#include <attenio/version.h>

#include <iostream>

int main() { std::cout << "attenio " << attenio_version() << '\n'; }
