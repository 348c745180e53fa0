{ A dynamic library that takes strings and objects from its program, and gives others. SPDX-License-Identifier: MIT }
library guest;

{$mode objfpc}{$H+}

uses
  heddlemm, cthreads, SysUtils;

procedure Append(var Text: string); cdecl;
begin
  Text := Text + ' and ' + IntToStr(Length(Text));
end;

function Make(Size: PtrUInt): Pointer; cdecl;
begin
  Result := GetMem(Size);
end;

exports
  Append, Make;

begin
end.
